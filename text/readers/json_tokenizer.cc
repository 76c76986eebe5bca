#include "text/readers/json_tokenizer.h"

#include <utility>

#include "files/json_reader.h"
#include "files/strict_json.h"
#include "text/assembled_tokenizer.h"
#include "text/pipeline/added_tokens.h"
#include "text/pipeline/normalizer.h"
#include "text/pipeline/pre_tokenizer.h"
#include "text/pipeline/token_decoder.h"
#include "text/readers/tokenizer_reader.h"
#include "text/subword/subword_model.h"

namespace ballast::text {
namespace {

// Returns such tokens with their normalized text, because they are searched in normalized text.
std::vector<AddedToken> normalized_tokens(const std::vector<AddedToken>& added, const Normalizer& normalizer) {
  std::vector<AddedToken> tokens;
  for (AddedToken token : added) {
    if (!token.normalized) continue;
    std::string storage;
    token.content = std::string(normalizer.normalize(token.content, storage));
    if (!token.content.empty()) tokens.push_back(std::move(token));
  }
  return tokens;
}

// Applies normalizer, pre-tokenizer and model in order.
class Pipeline : public TextEncoder {
 public:
  Pipeline(Normalizer normalizer, PreTokenizer pre_tokenizer, std::unique_ptr<SubwordModel> model,
           const std::vector<AddedToken>& added)
      : normalizer_(std::move(normalizer)),
        pre_tokenizer_(std::move(pre_tokenizer)),
        model_(std::move(model)),
        normalized_tokens_(normalized_tokens(added, normalizer_)) {}

  void encode(std::string_view text, bool begins_input, std::vector<int>& ids) const override {
    std::string storage;
    const std::string_view normalized = normalizer_.normalize(text, storage);
    const PieceSink add_piece = [&](std::string_view piece) { model_->encode(piece, ids); };
    normalized_tokens_.scan(
        normalized, {},
        [&](std::string_view plain) {
          pre_tokenizer_.split(plain, begins_input && plain.data() == normalized.data(), add_piece);
        },
        [&](int id) { ids.push_back(id); });
  }

 private:
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<SubwordModel> model_;
  AddedTokenFinder normalized_tokens_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerSource source) {
  const nlohmann::json value = files::parse_strict_json(source.tokenizer_data, source.tokenizer_file);
  return make_tokenizer(std::move(source), value, ClassProperties());
}

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerSource source, const nlohmann::json& value,
                                          ClassProperties properties) {
  const files::JsonReader json(value, source.tokenizer_file);
  const files::JsonReader config(source.config, source.config_file);
  PreTokenizer pre_tokenizer(json.find("pre_tokenizer"));
  const bool byte_level = pre_tokenizer.is_byte_level();
  VocabularyModel model = read_subword_model(json.at("model"), byte_level);
  const TokenDecoder decoder(json.find("decoder"), byte_level);

  TokenizerParts parts;
  parts.data_name = "tokenizer.json";
  parts.kind = std::move(model.kind);
  parts.byte_level = byte_level;
  parts.drops_first_space = decoder.drops_first_space();
  parts.tokens = model.bytes ? model.bytes : model.texts;
  if (!model.bytes) parts.decode = [decoder](std::string_view token) { return decoder.bytes(token); };
  parts.languages = std::move(properties.languages);
  parts.decoding_rules = properties.decoding_rules;
  // transformers ignores the option for BPE.
  const bool cleans_up = parts.kind == "Unigram" && config.flag("clean_up_tokenization_spaces", false);
  if (cleans_up) parts.decoding_rules.clean_up = true;
  parts.special = read_special_tokens(json, config, *model.texts);
  parts.encoder = std::make_unique<Pipeline>(Normalizer(json.find("normalizer")), std::move(pre_tokenizer),
                                             std::move(model.model), parts.special.added);
  return assemble_tokenizer(std::move(source), std::move(parts));
}

}  // namespace ballast::text
