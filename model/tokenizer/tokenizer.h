// Text to token ids and back.
#ifndef BALLAST_MODEL_TOKENIZER_TOKENIZER_H_
#define BALLAST_MODEL_TOKENIZER_TOKENIZER_H_

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/checkpoint.h"

namespace ballast::model {

/// Immutable; safe to use from several threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Ids as transformers gives them with add_special_tokens=False; special tokens written out in the text are
  /// recognised. Invalid UTF-8 is read as U+FFFD, as Python's errors="replace" does.
  virtual std::vector<int> encode(std::string_view text) const = 0;

  /// Bytes of one token; they may be a part of a UTF-8 sequence. Special tokens decode to their text; ids that no token
  /// has (rows that pad the embedding) to nothing.
  virtual std::string token_bytes(int id) const = 0;

  /// Whether the token is special (not shown to a reader).
  virtual bool is_special(int id) const = 0;

  /// Largest id + 1.
  virtual std::size_t vocab_size() const = 0;

  /// What the original puts in front of every text, if anything, and the token that ends one.
  virtual std::optional<int> bos() const = 0;
  virtual bool adds_bos() const = 0;
  virtual std::optional<int> eos() const = 0;

  /// One line for `inspect`: "byte-level BPE, 49152 tokens, 17 special".
  virtual std::string description() const = 0;

  /// The tokenizer as a Hugging Face tokenizer.json and tokenizer_config.json: as they were read, or made from a GGUF's
  /// metadata. The configuration includes the chat template wherever that stood.
  virtual nlohmann::json to_tokenizer_json() const = 0;
  virtual nlohmann::json to_tokenizer_config() const = 0;

  /// The chat template's Jinja text, empty when the model has none.
  virtual const std::string& chat_template() const = 0;
};

/// From tokenizer.json (+ tokenizer_config.json, chat_template.jinja) beside a Hugging Face checkpoint or from a GGUF's
/// metadata. Throws Error naming the file, or the kind of tokenizer when it is not supported.
/// Returns null when a Hugging Face directory has no tokenizer file at all, or a GGUF no tokenizer.ggml.model.
std::unique_ptr<Tokenizer> load_tokenizer(const Checkpoint& checkpoint);

/// Turns token ids into text as they come, holding back bytes until they are whole UTF-8 sequences.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// Text that can be shown now that `id` has come; special tokens give none.
  std::string push(int id);

  /// What is still held back at the end, with U+FFFD for what never became whole.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::string pending_;
};

/// `text` with every maximal subpart that is not UTF-8 replaced by U+FFFD, as Python's errors="replace" does.
std::string replace_invalid_utf8(std::string_view text);

struct ChatMessage {
  std::string role;  ///< "system", "user" or "assistant"
  std::string content;
};

/// The prompt for a conversation, ending where the assistant's answer begins. Recognises the known families of
/// templates (ChatML so far); throws Error naming the template's beginning when it is another one, or when there is
/// none.
std::string apply_chat_template(const Tokenizer& tokenizer, const std::vector<ChatMessage>& messages);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_TOKENIZER_TOKENIZER_H_
