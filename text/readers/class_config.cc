#include "text/readers/class_config.h"

#include <algorithm>
#include <utility>

#include "files/strict_json.h"
#include "text/readers/tokenizer_reader.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {
namespace {

using files::JsonReader;
using nlohmann::json;

constexpr const char* kAddedTokens = "added_tokens_decoder";
constexpr const char* kSpecialList = "additional_special_tokens";

std::vector<AddedToken> special_tokens_of(const JsonReader& list) {
  std::vector<AddedToken> tokens;
  for (const JsonReader& node : list.elements()) {
    if (node.json().is_string()) {
      tokens.push_back({.content = node.string(), .special = true});
    } else {
      tokens.push_back(read_added_token(node));
    }
  }
  return tokens;
}

}  // namespace

ClassConfig::ClassConfig(const std::filesystem::path& directory, json config, std::string config_file)
    : config_(std::move(config)), config_file_(std::move(config_file)) {
  const auto read = [&](const char* name, json& value, std::string& file) {
    const std::filesystem::path path = directory / name;
    if (lists_added_tokens() || !std::filesystem::exists(path)) return;
    value = files::read_json_object(path);
    file = path.string();
  };
  read("special_tokens_map.json", map_, map_file_);
  read("added_tokens.json", separate_, separate_file_);
}

std::optional<AddedToken> ClassConfig::named_token(const char* name) const {
  const bool in_map = map_.contains(name);
  const std::optional<JsonReader> node = in_map ? JsonReader(map_, map_file_).find(name) : reader().find(name);
  if (!node) return std::nullopt;
  if (node->json().is_string()) return AddedToken{.content = node->string(), .special = true};
  AddedToken token = read_added_token(*node);
  if (in_map) token.normalized = node->flag("normalized", false);
  token.special = true;
  return token;
}

AddedToken ClassConfig::named_token(const NamedToken& token) const {
  return named_token(token.name).value_or(AddedToken{.content = token.content, .special = true});
}

bool ClassConfig::has_properties(const char* name) const {
  const json& values = map_.contains(name) ? map_ : config_;
  return values.contains(name) && values[name].is_object();
}

std::optional<std::vector<AddedToken>> ClassConfig::extra_tokens() const {
  std::optional<JsonReader> list = reader().find("extra_special_tokens");
  const bool has_extra = list && !list->json().empty();
  if (config_.contains(kSpecialList) && !has_extra) {
    list = reader().find(kSpecialList);
    if (!list) return std::vector<AddedToken>();
  }
  if (!list || list->json().is_object()) return std::nullopt;  // an object contains tokens with names
  return special_tokens_of(*list);
}

std::optional<std::vector<AddedToken>> ClassConfig::listed_in_map() const {
  const std::optional<JsonReader> list = JsonReader(map_, map_file_).find(kSpecialList);
  return list ? std::optional(special_tokens_of(*list)) : std::nullopt;
}

std::map<int, AddedToken> ClassConfig::added_tokens() const {
  std::map<int, AddedToken> tokens;
  if (const std::optional<JsonReader> decoder = reader().find(kAddedTokens)) {
    for (const auto& [key, node] : decoder->members()) tokens[read_id_key(*decoder, key)] = read_added_token(node);
  }
  for (const auto& [content, id] : JsonReader(separate_, separate_file_).members()) {
    const bool special = is_special(std::string(content));
    tokens[read_token_id(id)] = {.content = std::string(content), .special = special, .normalized = !special};
  }
  return tokens;
}

bool ClassConfig::lists_added_tokens() const {
  return config_.contains(kAddedTokens);
}

void ClassConfig::write_names(const std::vector<NamedToken>& tokens, json& config) const {
  for (const NamedToken& token : tokens) config[token.name] = named_token(token).content;
}

bool ClassConfig::is_special(const std::string& content) const {
  for (const json* values : {&config_, &map_}) {
    for (const auto& [name, value] : values->items()) {
      if (name.ends_with("_token") && value.is_string() && value == content) return true;
    }
  }
  const std::optional<std::vector<AddedToken>> extra = extra_tokens();
  return extra && std::ranges::count(*extra, content, &AddedToken::content) > 0;
}

void AddedTokenList::add(AddedToken token) {
  if (token.content.empty() || ids_.contains(token.content)) return;
  const auto known = vocabulary_.find(token.content);
  token.id = known == vocabulary_.end() ? static_cast<int>(next_) : known->second;
  next_ = std::max(next_, static_cast<std::size_t>(token.id) + 1);
  ids_.emplace(token.content, token.id);
  tokens_.push_back({{"id", token.id},
                     {"content", token.content},
                     {"single_word", token.single_word},
                     {"lstrip", token.lstrip},
                     {"rstrip", token.rstrip},
                     {"normalized", token.normalized},
                     {"special", token.special}});
}

void AddedTokenList::set_special(const std::set<std::string>& contents) {
  for (json& token : tokens_) token["special"] = contents.contains(token["content"].get_ref<const std::string&>());
}

std::optional<int> AddedTokenList::find(const std::string& content) const {
  if (const auto added = ids_.find(content); added != ids_.end()) return added->second;
  const auto known = vocabulary_.find(content);
  return known == vocabulary_.end() ? std::nullopt : std::optional(known->second);
}

AddedTokenList python_added_tokens(const ClassConfig& config, AddedTokenList added,
                                   const std::vector<AddedToken>& named, const std::vector<AddedToken>& extra,
                                   json& written) {
  std::set<std::string> special;
  const auto add = [&](AddedToken token) {
    token.normalized = false;
    added.add(std::move(token));
  };
  for (auto& [id, token] : config.added_tokens()) add(token);
  for (const std::vector<AddedToken>* tokens : {&named, &extra}) {
    for (const AddedToken& token : *tokens) {
      add(token);
      special.insert(token.content);
    }
  }
  added.set_special(special);
  written[kAddedTokens] = json::object();
  for (json token : added.tokens()) {
    const std::string id = std::to_string(token["id"].get<int>());
    token.erase("id");
    written[kAddedTokens][id] = std::move(token);
  }
  written.erase("extra_special_tokens");
  written[kSpecialList] = json::array();
  for (const AddedToken& token : extra) written[kSpecialList].push_back(token.content);
  return added;
}

}  // namespace ballast::text
