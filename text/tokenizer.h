// Text to token ids and back.
#ifndef BALLAST_TEXT_TOKENIZER_H_
#define BALLAST_TEXT_TOKENIZER_H_

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/checkpoint.h"
#include "text/byte_range.h"

namespace ballast::text {

struct TokenizerFile {
  std::string name;
  std::string content;
};

/// Once it is shared immutable, and safe to use from several threads.
class Tokenizer {
 public:
  static constexpr std::size_t kNoLimit = static_cast<std::size_t>(-1);

  virtual ~Tokenizer() = default;

  /// Ids as transformers gives them with add_special_tokens=False; special tokens written out in the text are
  /// recognised. Invalid UTF-8 is read as U+FFFD, as Python's errors="replace" does.
  std::vector<int> encode(std::string_view text) const { return encode(text, {}); }

  /// The same, but special tokens are text where `plain` says so (in order, apart from each other; in bytes of a text
  /// that is UTF-8): no special token has a byte of such a range. What else the vocabulary has is found everywhere.
  std::vector<int> encode(std::string_view text, std::span<const ByteRange> plain) const {
    return encode(text, plain, kNoLimit);
  }

  /// The same for a text that must not have more than `most` tokens: of a longer one only as much is read as shows that
  /// it is longer, and the ids returned, more than `most`, are those of its beginning.
  virtual std::vector<int> encode(std::string_view text, std::span<const ByteRange> plain, std::size_t most) const = 0;

  /// Bytes of one token; they may be a part of a UTF-8 sequence. Special tokens decode to their text; ids that no token
  /// has (rows that pad the embedding) to nothing.
  virtual std::string token_bytes(int id) const = 0;

  /// Whether the token is special (not shown to a reader).
  virtual bool is_special(int id) const = 0;

  /// Largest id + 1.
  virtual std::size_t vocab_size() const = 0;

  /// Whether the vocabulary is made of bytes, so that every text survives encoding and decoding.
  virtual bool is_byte_level() const = 0;

  /// Whether a space at the very beginning of decoded text is the tokenizer's own (it puts one in front of every text)
  /// and not a part of the text.
  virtual bool drops_first_space() const = 0;

  /// Whether a text becomes the id only where the token is written out in it, before it is cut into pieces, or never.
  virtual bool is_added(int id) const = 0;

  /// From now on encode() throws Error naming the token for a text that has one of `rows` and above: the model has no
  /// row of its embedding for these. Before several threads use the tokenizer.
  virtual void set_embedding_rows(std::size_t rows) = 0;

  /// What the original puts around every text with add_special_tokens=True; often nothing, or BOS in front.
  virtual const std::vector<int>& leading_special_tokens() const = 0;
  virtual const std::vector<int>& suffix() const = 0;
  bool adds_bos() const { return !leading_special_tokens().empty() && bos() == leading_special_tokens().front(); }

  /// The tokens that begin and end a text.
  virtual std::optional<int> bos() const = 0;
  virtual std::optional<int> eos() const = 0;

  /// What chat templates see of special tokens, as transformers names them: {"bos_token": "<s>", "unk_token": "<unk>",
  /// "additional_special_tokens": ["<tool>"]}. Names without a token are left out.
  virtual const nlohmann::json& special_tokens() const = 0;

  /// What a user must be told of the files, a line each; mostly nothing.
  virtual const std::vector<std::string>& warnings() const = 0;

  /// One line for `inspect`: "byte-level BPE, 49152 tokens, 17 special".
  virtual std::string description() const = 0;

  /// The tokenizer as Hugging Face's files: as they were read, or made from a GGUF's metadata or bare vocabularies. The
  /// configuration includes the chat template wherever that was.
  virtual std::vector<TokenizerFile> files() const = 0;

  /// Frees what is kept for files(), which is not asked for any more. Before several threads use the tokenizer.
  virtual void forget_files() = 0;

  /// The chat template's Jinja text, empty when the model has none.
  virtual const std::string& chat_template() const = 0;

  /// The one for conversations with tools, where the model has one of its own; else empty.
  virtual const std::string& tool_chat_template() const = 0;

  /// Another one for all conversations. Before several threads use the tokenizer.
  virtual void set_chat_template(std::string chat_template) = 0;
};

/// The text of `ids`, special tokens left out.
std::string decode(const Tokenizer& tokenizer, std::span<const int> ids);

/// From the tokenizer's files beside a Hugging Face checkpoint (tokenizer_files.h) or from a GGUF's metadata. Throws
/// Error naming the file, or the kind of tokenizer when it is not supported. Returns null when a Hugging Face directory
/// has no tokenizer file at all, or a GGUF no tokenizer.ggml.model.
std::unique_ptr<Tokenizer> load_tokenizer(const files::Checkpoint& checkpoint);

/// Turns token ids into text as they come, holding back bytes until they are whole UTF-8 sequences.
class StreamDecoder {
 public:
  enum class Begin {
    kOfText,      ///< the first id begins a text
    kWithinText,  ///< it continues one
  };

  explicit StreamDecoder(const Tokenizer& tokenizer, Begin begin = Begin::kOfText, bool show_special = false)
      : tokenizer_(tokenizer),
        drop_space_(begin == Begin::kOfText && tokenizer.drops_first_space()),
        show_special_(show_special) {}

  /// Text that can be shown now that `id` has come; special tokens give none unless `show_special`.
  std::string push(int id);

  /// What is still held back at the end, with U+FFFD for what never became whole.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  bool drop_space_;  // the text has not begun yet
  bool show_special_;
  std::string pending_;
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_TOKENIZER_H_
