#include "text/readers/tokenizer_reader.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "files/text.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {
namespace {

// The added tokens of all sources, one for each content.
class AddedTokenTable {
 public:
  explicit AddedTokenTable(const TokenTable& vocabulary) : vocabulary_(vocabulary) {}

  // A later description of the same token replaces the earlier one.
  void add(const files::JsonReader& node, AddedToken token) {
    if (token.content.empty()) return;  // as transformers does: nothing to look for
    const int known_id = find_id(token.content).value_or(token.id);
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

  bool contains(const std::string& content) const { return place_of_.contains(content); }

  std::optional<int> find_id(const std::string& content) const {
    const auto place = place_of_.find(content);
    return place == place_of_.end() ? vocabulary_.find(content) : std::optional(tokens_[place->second].id);
  }

  bool has_id(int id) const { return is_in_vocabulary(id) || own_text_.contains(id); }

  std::size_t ids() const {
    std::size_t count = own_text_.size();
    for (std::size_t id = 0; id < vocabulary_.size(); ++id) count += vocabulary_[id].empty() ? 0 : 1;
    return count;
  }

  std::vector<AddedToken> take() { return std::move(tokens_); }

 private:
  bool is_in_vocabulary(int id) const {
    const auto index = static_cast<std::size_t>(id);
    return index < vocabulary_.size() && !vocabulary_[index].empty();
  }
  std::string_view text_of(int id) const {
    return is_in_vocabulary(id) ? vocabulary_[static_cast<std::size_t>(id)] : own_text_.at(id);
  }

  const TokenTable& vocabulary_;
  std::unordered_map<int, std::string> own_text_;  // of ids that the vocabulary does not have
  std::unordered_map<std::string, std::size_t> place_of_;
  std::vector<AddedToken> tokens_;
};

void add_configured_tokens(const files::JsonReader& config, AddedTokenTable& table) {
  if (const std::optional<files::JsonReader> decoder = config.find("added_tokens_decoder")) {
    for (const auto& [key, node] : decoder->members()) {
      AddedToken token = read_added_token(node);
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token.id);
      if (error != std::errc() || end != key.data() + key.size() || token.id < 0 || token.id > kMaxTokenId) {
        decoder->fail(files::in_quotes(key) + " cannot be a token's id");
      }
      table.add(node, std::move(token));
    }
  }
  // Named tokens are special even where no list of added tokens has them. One that is not in the vocabulary would get
  // an id that the model has no embedding for; it is left out.
  for (const std::string_view name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
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

// The template's tokens, unless the configuration says whether BOS and EOS are added: that goes first, as in
// transformers.
TextFrame read_frame(const files::JsonReader& tokenizer, const files::JsonReader& config, const SpecialTokens& special,
                     const AddedTokenTable& table) {
  TextFrame frame;
  if (const std::optional<files::JsonReader> node = tokenizer.find("post_processor")) {
    frame = read_post_processor(*node);
    for (const std::vector<int>* ids : {&frame.prefix, &frame.suffix}) {
      for (const int id : *ids) {
        if (!table.has_id(id)) node->fail("no token has id " + std::to_string(id));
      }
    }
  }
  const auto override_with = [&](std::string_view key, std::optional<int> token, std::vector<int>& ids) {
    const std::optional<files::JsonReader> node = config.find(key);
    if (!node) return;
    ids.clear();
    if (node->boolean() && token) ids.push_back(*token);
  };
  override_with("add_bos_token", special.bos, frame.prefix);
  override_with("add_eos_token", special.eos, frame.suffix);
  return frame;
}

}  // namespace

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

  SpecialTokens special;
  special.bos = named_token(config, "bos_token", table);
  special.eos = named_token(config, "eos_token", table);
  special.frame = read_frame(tokenizer, config, special, table);
  if (!special.frame.prefix.empty()) special.bos = special.frame.prefix.front();
  special.added = table.take();

  special.size = vocabulary.size();
  for (const AddedToken& token : special.added) {
    special.size = std::max(special.size, static_cast<std::size_t>(token.id) + 1);
  }
  check_dense(tokenizer.at("model"), table.ids(), special.size);
  return special;
}

std::string read_named_chat_template(const files::JsonReader& config, std::string_view name) {
  const std::optional<files::JsonReader> node = config.find("chat_template");
  if (!node || node->json().is_string()) return {};
  for (const files::JsonReader& candidate : node->elements()) {
    if (candidate.at("name").string() == name) return candidate.at("template").string();
  }
  return {};
}

std::string read_chat_template(const files::JsonReader& config, std::string separate) {
  if (!separate.empty()) return separate;
  const std::optional<files::JsonReader> node = config.find("chat_template");
  if (!node) return {};
  return node->json().is_string() ? node->string() : read_named_chat_template(config, "default");
}

}  // namespace ballast::text
