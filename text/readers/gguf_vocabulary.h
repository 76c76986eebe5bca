// Common parts of the readers of vocabularies in a GGUF's metadata.
#ifndef BALLAST_TEXT_READERS_GGUF_VOCABULARY_H_
#define BALLAST_TEXT_READERS_GGUF_VOCABULARY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "files/gguf/gguf.h"
#include "files/json_reader.h"
#include "files/utf8.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {

/// A metadata value that lives as long as the checked view of it.
class GgufValue {
 public:
  /// Throws Error for an array of more than `most` elements before it is read.
  GgufValue(const files::GgufFile& file, const std::string& key, std::size_t most = kMaxTokenId)
      : value_(bounded_value(file, key, most)), checked_(value_, file.path().string() + ": " + key) {}
  GgufValue(const GgufValue&) = delete;
  GgufValue& operator=(const GgufValue&) = delete;

  bool absent() const { return value_.is_null(); }
  bool flag(bool otherwise) const { return absent() ? otherwise : checked_.boolean(); }
  const files::JsonReader* operator->() const { return &checked_; }
  const files::JsonReader& operator*() const { return checked_; }

 private:
  static nlohmann::json bounded_value(const files::GgufFile& file, const std::string& key, std::size_t most);

  nlohmann::json value_;
  files::JsonReader checked_;
};

/// tokenizer.ggml.tokens
using GgufTexts = std::vector<files::JsonReader>;

/// Values of tokenizer.ggml.token_type (llama.cpp's llama_token_type).
enum class GgufTokenType : std::int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,  ///< pads the vocabulary to the number of the embedding's rows
  kByte = 6,
};

/// Calls use(left, right) for every split of a token, between two characters, into two for which is_token() is true:
/// the pairs that SentencePiece would merge to it.
template <typename IsToken, typename Use>
void for_each_pair(std::string_view token, const IsToken& is_token, const Use& use) {
  for (std::size_t cut = 1; cut < token.size(); ++cut) {
    if (files::continues_code_point(token[cut])) continue;
    const std::string_view left = token.substr(0, cut);
    const std::string_view right = token.substr(cut);
    if (is_token(left) && is_token(right)) use(left, right);
  }
}

/// GGUF does not guarantee UTF-8, but JSON requires it.
const std::string& valid_text(const files::JsonReader& element);

/// Reads the value of `key`, a list with an element for each token; null if missing. Throws Error for a list of another
/// size, without reading it.
GgufValue read_list_for(const files::GgufFile& file, const std::string& key, const GgufTexts& texts);
std::vector<files::JsonReader> elements_for(const GgufTexts& texts, const GgufValue& list);

/// Returns the type of each token; normal if the file does not specify it.
std::vector<GgufTokenType> read_token_types(const files::GgufFile& file, const GgufTexts& texts);

/// Ids by text. Of tokens with the same text the first one is used, or the first one that is searched in the text.
class GgufVocab {
 public:
  void add(const std::string& text, std::size_t id, GgufTokenType type);

  /// Returns whether the id's token is the one that its text is encoded to.
  bool has(std::size_t id) const { return !repeated_.contains(id); }

  /// Returns the `vocab` of a tokenizer.json.
  nlohmann::json ids() const;

  /// Lists the tokens with the text of another one in `config`.
  void note_repeated(nlohmann::json& config) const;

 private:
  struct Token {
    std::size_t id;
    GgufTokenType type;
  };
  std::unordered_map<std::string, Token> first_;
  std::map<std::size_t, std::string> repeated_;           ///< texts by id
  std::unordered_map<std::size_t, GgufTokenType> types_;  ///< of the repeated ones
};

/// Returns whether a token is searched in the text before splitting.
bool is_found_in_text(GgufTokenType type);

/// Returns the token id in the field `key`; nullopt if the file has no such field.
std::optional<std::size_t> named_token_id(const files::GgufFile& file, const GgufTexts& texts, const std::string& key);

/// Returns the fields of tokenizer_config.json that do not depend on the kind of tokenizer.
nlohmann::json plain_tokenizer_config();

/// Adds the tokens that begin and end a text, pad, and replace unknown text to `config`, by their ids in the file.
void name_special_tokens(const files::GgufFile& file, const GgufTexts& texts, nlohmann::json& config);

/// The tokens that a kind of tokenizer adds around a text if the file does not specify them.
struct GgufFrame {
  bool bos = false;
  bool eos = false;
};

/// Returns a post-processor that adds BOS before a text and EOS after it, as specified by the file or else by
/// `otherwise`; null for neither. Sets the same options in `config`, which names the tokens.
nlohmann::json read_gguf_frame(const files::GgufFile& file, GgufFrame otherwise, const nlohmann::json& vocab,
                               nlohmann::json& config);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_GGUF_VOCABULARY_H_
