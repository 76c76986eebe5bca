#include "text/readers/gguf_word_piece.h"

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/text.h"
#include "text/readers/tokenizer_json_parts.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {
namespace {

using nlohmann::json;

constexpr std::string_view kGoesOn = "##";

// Converts the list of tokens to the spelling of a vocab.txt.
class WordPieceTokens {
 public:
  WordPieceTokens(const files::GgufFile& file, const GgufTexts& texts)
      : file_(file), texts_(texts), types_(read_token_types(file, texts)) {}

  // Returns the token whose id is under one of the keys, or else the one with BERT's name for it, whose text is kept;
  // adds it to `config`.
  std::optional<std::size_t> special(const char* config_key, const char* usual_text,
                                     std::initializer_list<const char*> keys, json& config) {
    std::optional<std::size_t> id;
    for (const char* key : keys) {
      if (!id) id = named_token_id(file_, texts_, key);
    }
    for (std::size_t i = 0; !id && i < texts_.size(); ++i) {
      if (valid_text(texts_[i]) == usual_text) id = i;
    }
    if (id) {
      config[config_key] = valid_text(texts_[*id]);
      types_[*id] = GgufTokenType::kControl;
    }
    return id;
  }

  std::pair<std::string, json> at(std::size_t id) const { return {valid_text(texts_[id]), id}; }

  GgufVocab vocab() const {
    GgufVocab vocab;
    for (std::size_t id = 0; id < texts_.size(); ++id) {
      if (types_[id] != GgufTokenType::kUnused) vocab.add(text(id), id, types_[id]);
    }
    return vocab;
  }

  json added(const GgufVocab& vocab) const {
    json added = json::array();
    for (std::size_t id = 0; id < texts_.size(); ++id) {
      const bool by_user = types_[id] == GgufTokenType::kUserDefined;
      if ((by_user || is_special(id)) && vocab.has(id)) added.push_back(added_token(id, text(id), !by_user));
    }
    return added;
  }

  // An alphabet contains the letters of the text that it was made from.
  bool has_capitals() const {
    for (std::size_t id = 0; id < texts_.size(); ++id) {
      const std::string letter = text(id);
      if (letter.size() == 1 && letter.front() >= 'A' && letter.front() <= 'Z') return true;
    }
    return false;
  }

 private:
  bool is_special(std::size_t id) const {
    return types_[id] == GgufTokenType::kControl || types_[id] == GgufTokenType::kUnknown;
  }

  std::string text(std::size_t id) const {
    const std::string& stored = valid_text(texts_[id]);
    if (is_special(id)) return stored;
    if (stored.starts_with(kSpaceMark) && stored.size() > kSpaceMark.size()) return stored.substr(kSpaceMark.size());
    // Converters before 2024-07 kept all such tokens unchanged, including "[unused0]".
    if (stored.size() > 2 && stored.starts_with('[') && stored.ends_with(']')) return stored;
    return std::string(kGoesOn) + stored;
  }

  const files::GgufFile& file_;
  const GgufTexts& texts_;
  std::vector<GgufTokenType> types_;
};

}  // namespace

json read_gguf_word_piece(const files::GgufFile& file, const GgufTexts& texts, json& config) {
  WordPieceTokens tokens(file, texts);
  const auto needed = [&](std::optional<std::size_t> id, const char* key) {
    if (!id) GgufValue(file, key)->fail("is missing, and no token has BERT's name for it");
    return *id;
  };
  const std::size_t unknown = needed(tokens.special("unk_token", "[UNK]", {"tokenizer.ggml.unknown_token_id"}, config),
                                     "tokenizer.ggml.unknown_token_id");
  const std::size_t begin = needed(
      tokens.special("cls_token", "[CLS]", {"tokenizer.ggml.cls_token_id", "tokenizer.ggml.bos_token_id"}, config),
      "tokenizer.ggml.bos_token_id");
  const std::size_t end = needed(tokens.special("sep_token", "[SEP]",
                                                {"tokenizer.ggml.seperator_token_id",
                                                 "tokenizer.ggml.separator_token_id", "tokenizer.ggml.eos_token_id"},
                                                config),
                                 "tokenizer.ggml.seperator_token_id");
  tokens.special("pad_token", "[PAD]", {"tokenizer.ggml.padding_token_id"}, config);
  tokens.special("mask_token", "[MASK]", {"tokenizer.ggml.mask_token_id"}, config);

  const auto flag = [&](const char* key, bool otherwise) { return GgufValue(file, key).flag(otherwise); };
  // The token at the end may be a separator of texts or an end token in the file.
  const bool ends = flag("tokenizer.ggml.add_sep_token", true) || flag("tokenizer.ggml.add_eos_token", false);
  const bool begins = flag("tokenizer.ggml.add_bos_token", true);
  using Tokens = std::vector<std::pair<std::string, json>>;
  json frame = frame_template(begins ? Tokens{tokens.at(begin)} : Tokens(), ends ? Tokens{tokens.at(end)} : Tokens());

  const bool lower = flag("tokenizer.ggml.normalizer.lowercase", !tokens.has_capitals());
  const BertNormalization normalization = {.lowercase = lower,
                                           .strip_accents = flag("tokenizer.ggml.normalizer.strip_accents", lower)};
  GgufVocab vocab = tokens.vocab();
  vocab.note_repeated(config);
  json added = tokens.added(vocab);
  return word_piece_tokenizer_json(normalization, tokens.at(unknown).first, vocab.ids(), std::move(added),
                                   std::move(frame));
}

}  // namespace ballast::text
