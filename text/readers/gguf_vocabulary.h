// What the readers of vocabularies in a GGUF's metadata share.
#ifndef BALLAST_TEXT_READERS_GGUF_VOCABULARY_H_
#define BALLAST_TEXT_READERS_GGUF_VOCABULARY_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/gguf/gguf.h"
#include "files/json_reader.h"
#include "files/utf8.h"

namespace ballast::text {

/// A metadata value that stays alive as long as the checked view of it.
class GgufValue {
 public:
  GgufValue(const files::GgufFile& file, const std::string& key)
      : value_(file.metadata(key)), checked_(value_, file.path().string() + ": " + key) {}
  GgufValue(const GgufValue&) = delete;
  GgufValue& operator=(const GgufValue&) = delete;

  bool absent() const { return value_.is_null(); }
  bool flag(bool otherwise) const { return absent() ? otherwise : checked_.boolean(); }
  const files::JsonReader* operator->() const { return &checked_; }
  const files::JsonReader& operator*() const { return checked_; }

 private:
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
  kUnused = 5,  ///< fills the vocabulary up to the number of the embedding's rows
  kByte = 6,
};

/// Calls use(left, right) for every cut of a token, between two characters, into two that is_token() knows: the pairs
/// that SentencePiece would merge to it.
template <typename IsToken, typename Use>
void for_each_pair(std::string_view token, const IsToken& is_token, const Use& use) {
  for (std::size_t cut = 1; cut < token.size(); ++cut) {
    if (files::continues_code_point(token[cut])) continue;
    const std::string_view left = token.substr(0, cut);
    const std::string_view right = token.substr(cut);
    if (is_token(left) && is_token(right)) use(left, right);
  }
}

/// GGUF does not promise UTF-8, JSON needs it.
const std::string& valid_text(const files::JsonReader& element);

/// A list with an element for each token.
std::vector<files::JsonReader> elements_for(const GgufTexts& texts, const GgufValue& list);

/// The type of each token; all are normal in a file that does not say.
std::vector<GgufTokenType> read_token_types(const files::GgufFile& file, const GgufTexts& texts);

/// Text to id; another one with the same text is an Error.
void add_to_vocab(nlohmann::json& vocab, const files::JsonReader& token, const std::string& text, std::size_t id);

/// The id under `key`, that of a token; nothing when the file has no such key.
std::optional<std::size_t> named_token_id(const files::GgufFile& file, const GgufTexts& texts, const std::string& key);

/// What tokenizer_config.json says whatever the kind of tokenizer.
nlohmann::json plain_tokenizer_config();

/// Names in `config` the tokens that begin and end a text, pad, and stand for what is not known, by their ids in the
/// file.
void name_special_tokens(const files::GgufFile& file, const GgufTexts& texts, nlohmann::json& config);

/// Which tokens a kind of tokenizer puts around a text where the file does not say.
struct GgufFrame {
  bool bos = false;
  bool eos = false;
};

/// What puts BOS before a text and EOS after it, as the file or else `otherwise` wants it; null for neither. `config`,
/// which names the tokens, gets the same answer.
nlohmann::json read_gguf_frame(const files::GgufFile& file, GgufFrame otherwise, const nlohmann::json& vocab,
                               nlohmann::json& config);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_GGUF_VOCABULARY_H_
