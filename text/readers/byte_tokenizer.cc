#include "text/readers/byte_tokenizer.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "files/json_reader.h"
#include "files/text.h"
#include "text/readers/class_config.h"
#include "text/readers/json_tokenizer.h"
#include "text/readers/tokenizer_json_parts.h"
#include "text/unicode/byte_alphabet.h"

namespace ballast::text {
namespace {

using nlohmann::json;

// The tokens before the bytes, by id.
const std::vector<NamedToken>& byt5_names() {
  static const std::vector<NamedToken> names = {{"pad_token", "<pad>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
  return names;
}

AddedTokenList byt5_added_tokens(const ClassConfig& config, const TokenIds& vocabulary, json& written) {
  std::vector<AddedToken> named;
  for (const NamedToken& name : byt5_names()) {
    named.push_back(config.named_token(name));
    if (!config.has_properties(name.name)) named.back().lstrip = named.back().rstrip = true;
  }
  std::optional<std::vector<AddedToken>> extra = config.extra_tokens();
  if (!extra) extra = config.listed_in_map();
  if (!extra) {
    extra.emplace();
    const std::optional<files::JsonReader> count = config.reader().find("extra_ids");
    const std::size_t sentinels = count ? count->integer<std::size_t>(0, 4096) : 125;
    for (std::size_t i = 0; i < sentinels; ++i) {
      extra->push_back({.content = files::concat("<extra_id_", i, ">"), .special = true});
    }
  }
  return python_added_tokens(config, AddedTokenList(vocabulary, vocabulary.size()), named, *extra, written);
}

}  // namespace

std::unique_ptr<Tokenizer> read_byt5(const std::filesystem::path& directory, TokenizerSource source) {
  const ClassConfig config(directory, source.config, source.config_file);
  source.config["tokenizer_class"] = "ByT5Tokenizer";
  config.write_names(byt5_names(), source.config);
  json vocab = json::object();
  TokenIds ids;
  for (const NamedToken& name : byt5_names()) {
    const int id = static_cast<int>(vocab.size());
    vocab[config.named_token(name).content] = id;
    ids[config.named_token(name).content] = id;
  }
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text = alphabet_of_bytes(std::string(1, static_cast<char>(byte)));
    const int id = static_cast<int>(vocab.size());
    vocab[text] = id;
    ids[text] = id;
  }
  AddedTokenList added = byt5_added_tokens(config, ids, source.config);
  const std::string end = source.config["eos_token"].get<std::string>();
  PreTokenizerFamily bytes = {.normalizer = nullptr, .pre_tokenizer = byte_level_pre_tokenizer({}, false)};
  const json tokenizer = byte_level_tokenizer_json(std::move(bytes), std::move(vocab), json::array(), added.take(),
                                                   frame_template({}, {{end, added.find(end).value_or(1)}}));
  source.tokenizer_file = source.config_file;
  source.tokenizer_data = tokenizer.dump();
  const DecodingRules rules = {.drop_invalid = true, .clean_up = config.cleans_up()};
  return make_tokenizer(std::move(source), tokenizer, {.languages = std::nullopt, .decoding_rules = rules});
}

}  // namespace ballast::text
