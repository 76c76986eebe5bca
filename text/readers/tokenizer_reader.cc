#include "text/readers/tokenizer_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "files/text.h"
#include "text/readers/tokenizer_source.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {
namespace {

// The added tokens of all sources, one for each text.
class AddedTokenTable {
 public:
  explicit AddedTokenTable(const TokenTable& vocabulary) : vocabulary_(vocabulary) {}

  // Adds a token. A later description of the same token replaces the earlier one. Another token with the same text, and
  // an id that has no text yet, is a repeated one.
  void add(const files::JsonReader& node, AddedToken token) {
    if (token.content.empty()) return;  // as in transformers: an empty text is never found
    const int known_id = find_id(token.content).value_or(token.id);
    if (known_id != token.id && !has_id(token.id)) {
      repeat({.id = token.id, .same_as = known_id, .special = token.special});
      return;
    }
    const std::string_view known_text = has_id(token.id) ? text_of(token.id) : token.content;
    if (known_id != token.id || known_text != token.content) {
      node.fail("token " + files::in_quotes(token.content) + " has id " + std::to_string(token.id) + ", but " +
                (known_id != token.id ? "elsewhere it has id " + std::to_string(known_id)
                                      : "that is the id of " + files::in_quotes(known_text)));
    }
    const auto [place, is_new_token] = place_of_.emplace(token.content, tokens_.size());
    if (is_new_token) {
      if (!is_in_vocabulary(token.id)) own_text_.emplace(token.id, token.content);
      tokens_.push_back(std::move(token));
    } else {
      tokens_[place->second] = std::move(token);
    }
  }

  void repeat(const RepeatedToken& token) {
    if (repeated_ids_.insert(token.id).second) repeated_.push_back(token);
  }

  bool contains(const std::string& content) const { return place_of_.contains(content); }

  std::optional<int> find_id(const std::string& content) const {
    const auto place = place_of_.find(content);
    return place == place_of_.end() ? vocabulary_.find(content) : std::optional(tokens_[place->second].id);
  }

  bool has_id(int id) const { return is_in_vocabulary(id) || own_text_.contains(id); }

  std::size_t ids() const {
    std::size_t count = own_text_.size() + repeated_.size();
    for (std::size_t id = 0; id < vocabulary_.size(); ++id) count += vocabulary_[id].empty() ? 0 : 1;
    return count;
  }

  std::string_view text_of(int id) const {
    return is_in_vocabulary(id) ? vocabulary_[static_cast<std::size_t>(id)] : own_text_.at(id);
  }

  std::vector<AddedToken> take() { return std::move(tokens_); }
  std::vector<RepeatedToken> take_repeated() { return std::move(repeated_); }

 private:
  bool is_in_vocabulary(int id) const {
    const auto index = static_cast<std::size_t>(id);
    return index < vocabulary_.size() && !vocabulary_[index].empty();
  }

  const TokenTable& vocabulary_;
  std::unordered_map<int, std::string> own_text_;  // of ids that are not in the vocabulary
  std::unordered_map<std::string, std::size_t> place_of_;
  std::vector<AddedToken> tokens_;
  std::vector<RepeatedToken> repeated_;
  std::unordered_set<int> repeated_ids_;
};

constexpr std::array kTokenNames = {"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};

void add_repeated_tokens(const files::JsonReader& config, AddedTokenTable& table) {
  const std::optional<files::JsonReader> tokens = config.find(kRepeatedTokensField);
  if (!tokens) return;
  for (const auto& [key, node] : tokens->members()) {
    const RepeatedToken token = {.id = read_id_key(*tokens, key),
                                 .same_as = read_token_id(node.at("same_as")),
                                 .special = node.flag("special", false)};
    if (!table.has_id(token.same_as)) node.fail("same_as", "no token has this id");
    table.repeat(token);
  }
}

void add_configured_tokens(const files::JsonReader& config, AddedTokenTable& table) {
  if (const std::optional<files::JsonReader> decoder = config.find("added_tokens_decoder")) {
    for (const auto& [key, node] : decoder->members()) {
      AddedToken token = read_added_token(node);
      token.id = read_id_key(*decoder, key);
      table.add(node, std::move(token));
    }
  }
  // Named tokens are special even if no list of added tokens contains them. One that is not in the vocabulary would get
  // an id for which the model has no embedding; it is left out.
  for (const char* name : kTokenNames) {
    const std::optional<files::JsonReader> node = config.find(name);
    if (!node) continue;
    AddedToken token;
    token.content = read_token_content(*node);
    token.special = true;
    const std::optional<int> id = table.find_id(token.content);
    if (!id || table.contains(token.content)) continue;
    token.id = *id;
    table.add(*node, std::move(token));
  }
}

std::optional<int> named_token(const files::JsonReader& config, std::string_view name, const AddedTokenTable& table) {
  const std::optional<files::JsonReader> node = config.find(name);
  return node ? table.find_id(read_token_content(*node)) : std::nullopt;
}

// Returns the template's tokens; for BOS and EOS the configuration's options have precedence. It has no options for
// other tokens: Qwen3-Embedding's template ends texts with a token that is not EOS.
TokenTemplate read_frame(const files::JsonReader& tokenizer, const files::JsonReader& config,
                         const SpecialTokens& special, const AddedTokenTable& table) {
  TokenTemplate frame;
  if (const std::optional<files::JsonReader> node = tokenizer.find("post_processor")) {
    frame = read_post_processor(*node);
    for (const std::vector<int>* ids : {&frame.prefix, &frame.suffix}) {
      for (const int id : *ids) {
        if (!table.has_id(id)) node->fail("no token has id " + std::to_string(id));
      }
    }
    for (const PairPart& part : frame.pair) {
      const bool known = part.kind != PairPart::Kind::kToken || table.has_id(part.id);
      if (!known) node->fail("no token has id " + std::to_string(part.id));
    }
  }
  const std::vector<int> prefix = frame.prefix;
  const std::vector<int> suffix = frame.suffix;
  const auto override_with = [&](std::string_view key, std::optional<int> token, std::vector<int>& ids) {
    const std::optional<files::JsonReader> node = config.find(key);
    if (!node) return;
    if (!node->boolean() && (!token || ids == std::vector{*token})) ids.clear();
    if (node->boolean() && token && ids.empty()) ids.push_back(*token);
  };
  override_with("add_bos_token", special.bos, frame.prefix);
  override_with("add_eos_token", special.eos, frame.suffix);
  const bool changed = prefix != frame.prefix || suffix != frame.suffix;
  if (frame.pair.empty() || changed) frame.pair = pair_of_frames(frame);
  return frame;
}

}  // namespace

int read_id_key(const files::JsonReader& object, std::string_view key) {
  int id = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size() || id < 0 || id > kMaxTokenId) {
    object.fail(files::in_quotes(key) + " cannot be a token's id");
  }
  return id;
}

std::string read_token_content(const files::JsonReader& token) {
  return token.json().is_object() ? token.text("content") : token.string();
}

SpecialTokens read_special_tokens(const files::JsonReader& tokenizer, const files::JsonReader& config,
                                  const TokenTable& vocabulary) {
  AddedTokenTable table(vocabulary);
  if (const std::optional<files::JsonReader> list = tokenizer.find("added_tokens")) {
    for (const files::JsonReader& node : list->elements()) {
      AddedToken token = read_added_token(node);
      token.id = read_token_id(node.at("id"));
      table.add(node, std::move(token));
    }
  }
  add_configured_tokens(config, table);
  add_repeated_tokens(config, table);

  SpecialTokens special;
  special.bos = named_token(config, "bos_token", table);
  special.eos = named_token(config, "eos_token", table);
  special.frame = read_frame(tokenizer, config, special, table);
  if (!special.frame.prefix.empty()) special.bos = special.frame.prefix.front();
  special.size = vocabulary.size();
  const std::size_t ids = table.ids();
  special.added = table.take();
  special.repeated = table.take_repeated();
  const auto grow_for = [&](int id) { special.size = std::max(special.size, static_cast<std::size_t>(id) + 1); };
  for (const AddedToken& token : special.added) grow_for(token.id);
  for (const RepeatedToken& token : special.repeated) grow_for(token.id);
  check_dense(tokenizer.at("model"), ids, special.size);
  return special;
}

nlohmann::json read_special_token_names(const files::JsonReader& config) {
  nlohmann::json names = nlohmann::json::object();
  const auto set = [&](const std::string& name, const files::JsonReader& token) {
    std::string content = read_token_content(token);
    if (!content.empty()) names[name] = std::move(content);
  };
  for (const auto& [name, token] : config.members()) {
    const bool named = token.json().is_string() || token.json().is_object();  // otherwise a field like add_bos_token
    if (named && name.ends_with("_token")) set(std::string(name), token);
  }
  // The older and the newer name of a list; the newer one may also contain tokens by name.
  for (const char* field : {"additional_special_tokens", "extra_special_tokens"}) {
    const std::optional<files::JsonReader> tokens = config.find(field);
    if (!tokens) continue;
    if (tokens->json().is_object()) {
      for (const auto& [name, token] : tokens->members()) {
        if (name.ends_with("_token")) set(std::string(name), token);
      }
      continue;
    }
    nlohmann::json list = nlohmann::json::array();
    for (const files::JsonReader& token : tokens->elements()) list.push_back(read_token_content(token));
    if (!list.empty()) names[field] = std::move(list);
  }
  return names;
}

namespace {

// Returns one template, or several by name. A template without a name is the default.
std::vector<std::pair<std::string, std::string>> chat_templates(const files::JsonReader& config) {
  const std::optional<files::JsonReader> node = config.find("chat_template");
  if (!node) return {};
  if (node->json().is_string()) return {{"default", node->string()}};
  std::vector<std::pair<std::string, std::string>> templates;
  if (node->json().is_object()) {
    for (const auto& [name, source] : node->members()) templates.emplace_back(name, source.string());
    return templates;
  }
  for (const files::JsonReader& candidate : node->elements()) {
    templates.emplace_back(candidate.at("name").string(), candidate.at("template").string());
  }
  return templates;
}

}  // namespace

std::string read_named_chat_template(const files::JsonReader& config, std::string_view name) {
  for (auto& [known, source] : chat_templates(config)) {
    if (known == name) return std::move(source);
  }
  return {};
}

std::string read_chat_template(const files::JsonReader& config) {
  std::string source = read_named_chat_template(config, "default");
  if (!source.empty()) return source;
  auto templates = chat_templates(config);
  return templates.size() == 1 ? std::move(templates.front().second) : std::string();
}

}  // namespace ballast::text
