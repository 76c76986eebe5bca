#include "text/readers/gguf_vocabulary.h"

#include <array>
#include <utility>

#include "ballast/error.h"
#include "files/text.h"
#include "files/utf8.h"
#include "text/readers/tokenizer_json_parts.h"
#include "text/readers/tokenizer_source.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {

const std::string& valid_text(const files::JsonReader& element) {
  const std::string& text = element.string();
  if (!files::is_utf8(text)) element.fail("is not UTF-8: " + files::in_quotes(text));
  return text;
}

std::vector<files::JsonReader> elements_for(const GgufTexts& texts, const GgufValue& list) {
  std::vector<files::JsonReader> elements = list->elements();
  if (elements.size() != texts.size()) {
    list->fail(files::concat("has ", elements.size(), " elements for ", texts.size(), " tokens"));
  }
  return elements;
}

nlohmann::json GgufValue::bounded_value(const files::GgufFile& file, const std::string& key, std::size_t most) {
  const std::size_t size = file.array_size(key);
  if (size > most) {
    throw Error(file.path().string() + ": " + key, files::concat("has ", size, " elements, at most ", most, " can be"));
  }
  return file.metadata(key);
}

GgufValue read_list_for(const files::GgufFile& file, const std::string& key, const GgufTexts& texts) {
  return {file, key, texts.size()};
}

std::vector<GgufTokenType> read_token_types(const files::GgufFile& file, const GgufTexts& texts) {
  std::vector<GgufTokenType> types(texts.size(), GgufTokenType::kNormal);
  const GgufValue list = read_list_for(file, "tokenizer.ggml.token_type", texts);
  if (list.absent()) return types;
  const std::vector<files::JsonReader> elements = elements_for(texts, list);
  for (std::size_t id = 0; id < types.size(); ++id) types[id] = GgufTokenType{elements[id].integer()};
  return types;
}

bool is_found_in_text(GgufTokenType type) {
  using enum GgufTokenType;
  return type == kControl || type == kUserDefined || type == kUnknown;
}

void GgufVocab::add(const std::string& text, std::size_t id, GgufTokenType type) {
  const auto [known, is_new] = first_.emplace(text, Token{id, type});
  if (is_new) return;
  Token later = {id, type};
  if (!is_found_in_text(known->second.type) && is_found_in_text(type)) std::swap(known->second, later);
  repeated_.emplace(later.id, text);
  types_.emplace(later.id, later.type);
}

nlohmann::json GgufVocab::ids() const {
  nlohmann::json ids = nlohmann::json::object();
  for (const auto& [text, token] : first_) ids[text] = token.id;
  return ids;
}

void GgufVocab::note_repeated(nlohmann::json& config) const {
  for (const auto& [id, text] : repeated_) {
    const GgufTokenType type = types_.at(id);
    config[kRepeatedTokensField][std::to_string(id)] = {
        {"same_as", first_.at(text).id}, {"special", is_found_in_text(type) && type != GgufTokenType::kUserDefined}};
  }
}

std::optional<std::size_t> named_token_id(const files::GgufFile& file, const GgufTexts& texts, const std::string& key) {
  const GgufValue id(file, key);
  if (id.absent()) return std::nullopt;
  const auto index = static_cast<std::size_t>(read_token_id(*id));
  if (index >= texts.size()) id->fail(files::concat("is ", index, ", there are ", texts.size(), " tokens"));
  return index;
}

nlohmann::json plain_tokenizer_config() {
  return {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
}

void name_special_tokens(const files::GgufFile& file, const GgufTexts& texts, nlohmann::json& config) {
  constexpr std::array<std::pair<const char*, const char*>, 7> kNames{
      {{"bos_token", "tokenizer.ggml.bos_token_id"},
       {"eos_token", "tokenizer.ggml.eos_token_id"},
       {"unk_token", "tokenizer.ggml.unknown_token_id"},
       {"pad_token", "tokenizer.ggml.padding_token_id"},
       {"sep_token", "tokenizer.ggml.seperator_token_id"},
       {"cls_token", "tokenizer.ggml.cls_token_id"},
       {"mask_token", "tokenizer.ggml.mask_token_id"}}};
  for (const auto& [name, key] : kNames) {
    if (const std::optional<std::size_t> id = named_token_id(file, texts, key)) config[name] = valid_text(texts[*id]);
  }
}

nlohmann::json read_gguf_frame(const files::GgufFile& file, GgufFrame otherwise, const nlohmann::json& vocab,
                               nlohmann::json& config) {
  using Token = std::vector<std::pair<std::string, nlohmann::json>>;
  const auto token = [&](const char* key, const char* name, const char* config_key, bool by_default) -> Token {
    const bool adds = GgufValue(file, key).flag(by_default) && config.contains(name) && vocab.contains(config[name]);
    config[config_key] = adds;
    return adds ? Token{{config[name], vocab.at(config[name])}} : Token{};
  };
  const Token bos = token("tokenizer.ggml.add_bos_token", "bos_token", "add_bos_token", otherwise.bos);
  const Token eos = token("tokenizer.ggml.add_eos_token", "eos_token", "add_eos_token", otherwise.eos);
  return bos.empty() && eos.empty() ? nlohmann::json(nullptr) : frame_template(bos, eos);
}

}  // namespace ballast::text
