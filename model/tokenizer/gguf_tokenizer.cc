#include "model/tokenizer/gguf_tokenizer.h"

#include <array>
#include <string_view>
#include <utility>

#include "ballast/error.h"
#include "model/checkpoint/text.h"
#include "model/tokenizer/bpe_reader.h"
#include "model/tokenizer/checked_json.h"
#include "model/tokenizer/pre_tokenizer_families.h"

namespace ballast::model {
namespace {

using nlohmann::json;

// Values of tokenizer.ggml.token_type (llama.cpp's llama_token_type).
enum TokenType : std::int64_t { kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5 };

// A metadata value that stays alive as long as the checked view of it.
class Metadata {
 public:
  Metadata(const GgufFile& file, const std::string& key)
      : value_(file.metadata(key)), checked_(value_, file.path().string() + ": " + key) {}
  Metadata(const Metadata&) = delete;
  Metadata& operator=(const Metadata&) = delete;

  bool absent() const { return value_.is_null(); }
  const CheckedJson* operator->() const { return &checked_; }
  const CheckedJson& operator*() const { return checked_; }

 private:
  json value_;
  CheckedJson checked_;
};

// Element `index` of an array of strings; GGUF does not promise UTF-8, JSON needs it.
const std::string& text_at(const CheckedJson& list, std::size_t index) {
  const json& element = list.value()[index];
  if (!element.is_string()) list.fail("element " + std::to_string(index) + " must be a string");
  const auto& text = element.get_ref<const std::string&>();
  if (!is_utf8(text)) list.fail("element " + std::to_string(index) + " is not UTF-8: " + in_quotes(text));
  return text;
}

std::int64_t type_at(const CheckedJson& types, std::size_t index) {
  const json& element = types.value()[index];
  if (!element.is_number_integer()) types.fail("element " + std::to_string(index) + " must be a whole number");
  return element.get<std::int64_t>();
}

json added_token(std::size_t id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

struct Tokens {
  json vocab = json::object();
  json added = json::array();
};

Tokens read_tokens(const GgufFile& file, const Metadata& texts) {
  const Metadata types(file, "tokenizer.ggml.token_type");
  const std::size_t count = texts->array().size();
  if (count > kMaxTokenId) texts->fail(std::to_string(count) + " tokens are too many");
  if (!types.absent() && types->array().size() != count) {
    types->fail("has " + std::to_string(types->array().size()) + " elements for " + std::to_string(count) + " tokens");
  }
  Tokens tokens;
  for (std::size_t id = 0; id < count; ++id) {
    const std::string& text = text_at(*texts, id);
    const std::int64_t type = types.absent() ? kNormal : type_at(*types, id);
    // Fills the vocabulary up to the number of the embedding's rows.
    if (type == kUnused) continue;
    if (!tokens.vocab.emplace(text, id).second) {
      texts->fail("token " + in_quotes(text) + " is there twice, with ids " + tokens.vocab[text].dump() + " and " +
                  std::to_string(id));
    }
    if (type == kControl || type == kUserDefined) tokens.added.push_back(added_token(id, text, type == kControl));
  }
  return tokens;
}

json read_merges(const GgufFile& file) {
  const Metadata merges(file, "tokenizer.ggml.merges");
  for (std::size_t i = 0; i < merges->array().size(); ++i) text_at(*merges, i);
  return merges->value();
}

PreTokenizerFamily read_family(const GgufFile& file) {
  const Metadata name(file, "tokenizer.ggml.pre");
  const std::string pre = name.absent() ? "default" : name->string();
  std::optional<PreTokenizerFamily> family = pre_tokenizer_family(pre);
  if (!family) name->fail("pre-tokenizer " + in_quotes(pre) + " is not supported");
  return *std::move(family);
}

// The text of the token that `key` names by id; nothing when the file has no such key.
std::optional<std::string> named_token(const GgufFile& file, const Metadata& texts, const std::string& key) {
  const Metadata id(file, key);
  if (id.absent()) return std::nullopt;
  const auto index = static_cast<std::size_t>(read_token_id(*id));
  if (index >= texts->array().size()) {
    id->fail("is " + std::to_string(index) + ", there are " + std::to_string(texts->array().size()) + " tokens");
  }
  return text_at(*texts, index);
}

json read_config(const GgufFile& file, const Metadata& texts) {
  json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  constexpr std::array<std::pair<const char*, const char*>, 4> kNames{
      {{"bos_token", "tokenizer.ggml.bos_token_id"},
       {"eos_token", "tokenizer.ggml.eos_token_id"},
       {"unk_token", "tokenizer.ggml.unknown_token_id"},
       {"pad_token", "tokenizer.ggml.padding_token_id"}}};
  for (const auto& [name, key] : kNames) {
    if (const std::optional<std::string> token = named_token(file, texts, key)) config[name] = *token;
  }
  return config;
}

// What puts bos in front of a text.
json post_processor(const json& config, const json& vocab) {
  const std::string& bos = config["bos_token"].get_ref<const std::string&>();
  const json bos_part = {{"SpecialToken", {{"id", bos}, {"type_id", 0}}}};
  const json text_part = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const json second_part = {{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  const json special = {{"id", bos}, {"ids", json::array({vocab.at(bos)})}, {"tokens", json::array({bos})}};
  return {{"type", "TemplateProcessing"},
          {"single", json::array({bos_part, text_part})},
          {"pair", json::array({bos_part, text_part, second_part})},
          {"special_tokens", {{bos, special}}}};
}

}  // namespace

std::optional<TokenizerSource> read_gguf_tokenizer(const GgufFile& file) {
  const Metadata model(file, "tokenizer.ggml.model");
  if (model.absent()) return std::nullopt;
  if (model->string() != "gpt2") {
    model->fail("tokenizer " + in_quotes(model->string()) + " is not supported yet; only byte-level BPE (\"gpt2\") is");
  }
  PreTokenizerFamily family = read_family(file);
  const Metadata texts(file, "tokenizer.ggml.tokens");
  Tokens tokens = read_tokens(file, texts);
  const Metadata add_bos(file, "tokenizer.ggml.add_bos_token");
  const bool wants_bos = add_bos.absent() ? family.adds_bos : add_bos->boolean();
  json config = read_config(file, texts);
  const bool adds_bos = wants_bos && config.contains("bos_token") && tokens.vocab.contains(config["bos_token"]);
  config["add_bos_token"] = adds_bos;

  TokenizerSource source;
  source.tokenizer_file = file.path().string();
  source.config_file = source.tokenizer_file;
  const Metadata chat_template(file, "tokenizer.chat_template");
  if (!chat_template.absent()) {
    source.chat_template = chat_template->string();
    if (!is_utf8(source.chat_template)) chat_template->fail("is not UTF-8");
  }
  json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  const json tokenizer = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", std::move(tokens.added)},
      {"normalizer", std::move(family.normalizer)},
      {"pre_tokenizer", std::move(family.pre_tokenizer)},
      {"post_processor", adds_bos ? post_processor(config, tokens.vocab) : json(nullptr)},
      {"decoder", std::move(byte_level)},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", family.ignore_merges},
        {"vocab", std::move(tokens.vocab)},
        {"merges", read_merges(file)}}},
  };
  source.tokenizer_json = tokenizer.dump();
  source.config = std::move(config);
  return source;
}

}  // namespace ballast::model
