// Converts text to token ids and back.
#ifndef BALLAST_TEXT_TOKENIZER_H_
#define BALLAST_TEXT_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
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

/// A part of the tokens of a pair: a special token, or the tokens of one of its texts.
struct PairPart {
  enum class Kind { kToken, kFirst, kSecond };
  Kind kind = Kind::kToken;
  int id = 0;             ///< of a special token
  std::uint8_t type = 0;  ///< the token type of all tokens of the part

  bool operator==(const PairPart&) const = default;
};

/// Special tokens before and after a text.
struct TextFrame {
  std::vector<int> before;
  std::vector<int> after;

  bool operator==(const TextFrame&) const = default;
};

/// How a decoded text differs from the bytes of its tokens, in this order.
struct DecodingRules {
  bool drop_invalid = false;  ///< bytes that are not UTF-8 are left out; else U+FFFD replaces them
  bool strip = false;         ///< white space at both ends is left out
  bool clean_up = false;      ///< spaces before punctuation and contractions are left out, as BERT's authors did it

  bool operator==(const DecodingRules&) const = default;
};

/// Immutable once shared, and then safe to use from several threads.
class Tokenizer {
 public:
  static constexpr std::size_t kNoLimit = static_cast<std::size_t>(-1);

  virtual ~Tokenizer() = default;

  /// Returns ids like transformers with add_special_tokens=False; special tokens in the text are recognized. Invalid
  /// UTF-8 is read as U+FFFD, like Python's errors="replace".
  std::vector<int> encode(std::string_view text) const { return encode(text, {}); }

  /// Returns the same, but special tokens do not match if a byte of theirs is in one of the ranges `plain` (ordered,
  /// disjoint, in bytes of valid UTF-8). Other added tokens match everywhere.
  std::vector<int> encode(std::string_view text, std::span<const ByteRange> plain) const {
    return encode(text, plain, kNoLimit);
  }

  /// Returns the same for a text that may have at most `most` tokens: a longer one is read only until it is known to be
  /// too long, and the returned ids, more than `most`, are those of its beginning.
  virtual std::vector<int> encode(std::string_view text, std::span<const ByteRange> plain, std::size_t most) const = 0;

  /// Returns the bytes of a token; they may be a part of a UTF-8 sequence. Special tokens decode to their text; unused
  /// ids (rows that pad the embedding) to nothing.
  virtual std::string token_bytes(int id) const = 0;

  /// Returns whether the token is special (not shown to a reader).
  virtual bool is_special(int id) const = 0;

  /// Largest id + 1.
  virtual std::size_t vocab_size() const = 0;

  /// Returns whether the vocabulary consists of bytes, so that every text survives encoding and decoding.
  virtual bool is_byte_level() const = 0;

  /// Returns whether a space at the beginning of decoded text was added by the tokenizer and is not a part of the text.
  virtual bool drops_first_space() const = 0;

  virtual DecodingRules decoding_rules() const { return {}; }

  /// Returns whether text is encoded to this id only if the token is written in it, before it is split into pieces, or
  /// never.
  virtual bool is_added(int id) const = 0;

  /// Makes encode() throw Error naming the token for a text with an id of at least `rows`, for which the model has no
  /// row of its embedding. Must be called before several threads use the tokenizer.
  virtual void set_embedding_rows(std::size_t rows) = 0;

  /// Returns the tokens that the original adds before every text with add_special_tokens=True; often none, or BOS.
  virtual const std::vector<int>& leading_special_tokens() const = 0;
  virtual const std::vector<int>& suffix() const = 0;

  /// Returns the order of two texts that are read together (a query and a document), with special tokens.
  virtual const std::vector<PairPart>& pair_parts() const = 0;

  /// Returns the codes of the languages that have a token ("en", "eng_Latn", "en_XX"), sorted; empty if the tokenizer
  /// knows none.
  virtual std::vector<std::string> languages() const { return {}; }

  /// Returns the special tokens around a text in `language` that an encoder reads; "": the language that
  /// tokenizer_config.json or the tokenizer's class sets (src_lang). Throws Error for an unknown language, and names
  /// the known ones.
  virtual TextFrame source_frame(std::string_view language) const;

  /// Returns the tokens with which a decoder's text in `language` begins after its start token; "": the language that
  /// tokenizer_config.json sets (tgt_lang), or none. Throws Error like source_frame().
  virtual std::vector<int> target_start(std::string_view language) const;

  /// Returns the ids of a decoder's text without special tokens around it. They differ from encode() only if the
  /// tokenizer has a separate model for the target language (Marian).
  virtual std::vector<int> encode_target(std::string_view text) const { return encode(text); }

  bool adds_bos() const { return !leading_special_tokens().empty() && bos() == leading_special_tokens().front(); }

  /// Return the tokens that begin and end a text.
  virtual std::optional<int> bos() const = 0;
  virtual std::optional<int> eos() const = 0;

  /// Returns the special tokens for chat templates, with transformers' names: {"bos_token": "<s>", "unk_token":
  /// "<unk>", "additional_special_tokens": ["<tool>"]}. Names without a token are left out.
  virtual const nlohmann::json& special_tokens() const = 0;

  /// Returns warnings about the files for the user, one line each; usually none.
  virtual const std::vector<std::string>& warnings() const = 0;

  /// Returns a line for `inspect`: "byte-level BPE, 49152 tokens, 17 special".
  virtual std::string description() const = 0;

  /// Returns the tokenizer as Hugging Face's files: as they were read, or made from a GGUF's metadata or bare
  /// vocabularies. The configuration includes the chat template.
  virtual std::vector<TokenizerFile> files() const = 0;

  /// Frees the memory of files(), which must not be called afterwards. Must be called before several threads use the
  /// tokenizer.
  virtual void forget_files() = 0;

  /// Returns the chat template's Jinja text, empty if the model has none.
  virtual const std::string& chat_template() const = 0;

  /// Returns the template for conversations with tools, if the model has a separate one; else empty.
  virtual const std::string& tool_chat_template() const = 0;

  /// Replaces the template for all conversations. Must be called before several threads use the tokenizer.
  virtual void set_chat_template(std::string chat_template) = 0;
};

/// Returns the text of `ids` without special tokens.
std::string decode(const Tokenizer& tokenizer, std::span<const int> ids);

/// Loads the tokenizer from the files of a Hugging Face checkpoint (tokenizer_files.h) or from a GGUF's metadata.
/// Throws Error naming the file, or the kind of tokenizer if it is not supported. Returns null if a Hugging Face
/// directory has no tokenizer file, or a GGUF no tokenizer.ggml.model.
std::unique_ptr<Tokenizer> load_tokenizer(const files::Checkpoint& checkpoint);

/// Decodes token ids to text one by one, holding back bytes until they are complete UTF-8 sequences, and text to which
/// the tokenizer's DecodingRules may still apply.
class StreamDecoder {
 public:
  enum class Begin {
    kOfText,      ///< the first id begins a text
    kWithinText,  ///< it continues one
  };

  explicit StreamDecoder(const Tokenizer& tokenizer, Begin begin = Begin::kOfText, bool show_special = false)
      : tokenizer_(tokenizer),
        rules_(tokenizer.decoding_rules()),
        drop_space_(begin == Begin::kOfText && tokenizer.drops_first_space()),
        strip_begin_(begin == Begin::kOfText && rules_.strip),
        show_special_(show_special) {}

  /// Returns the text that can be shown after `id`; special tokens have none unless `show_special`.
  std::string push(int id);

  /// Returns the text that was held back at the end, with U+FFFD for incomplete sequences.
  std::string finish();

 private:
  std::string valid(std::string_view bytes) const;
  std::string without_ends(std::string text);
  std::string cleaned_up(std::string_view text);

  const Tokenizer& tokenizer_;
  DecodingRules rules_;
  bool drop_space_;   // the text has not begun yet
  bool strip_begin_;  // white space before the first other character is left out
  bool show_special_;
  std::string pending_;
  std::string white_space_;  // follows the text and is left out at its end
  std::string uncleaned_;    // may change with what follows
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_TOKENIZER_H_
