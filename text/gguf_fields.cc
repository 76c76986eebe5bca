#include "text/gguf_fields.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "files/json_reader.h"
#include "files/strict_json.h"
#include "files/text.h"
#include "text/pipeline/pre_tokenizer_families.h"
#include "text/readers/gguf_end_tokens.h"
#include "text/readers/gguf_vocabulary.h"
#include "text/subword/vocabulary.h"
#include "text/tokenizer.h"

namespace ballast::text {
namespace {

using files::GgufField;
using nlohmann::json;

struct TokenList {
  std::vector<std::string> texts;
  std::vector<GgufTokenType> types;

  void set(std::size_t id, const std::string& text, GgufTokenType type) {
    if (id >= texts.size()) return;
    texts[id] = text;
    types[id] = type;
  }

  std::vector<std::int32_t> type_numbers() const {
    std::vector<std::int32_t> numbers;
    for (const GgufTokenType type : types) numbers.push_back(static_cast<std::int32_t>(type));
    return numbers;
  }
};

/// Returns all tokens; rows that pad the embedding get generated names, because all must differ.
TokenList token_list(const json& tokenizer, std::size_t vocab_size) {
  using enum GgufTokenType;
  TokenList list{std::vector<std::string>(vocab_size), std::vector<GgufTokenType>(vocab_size, kUnused)};
  for (std::size_t id = 0; id < vocab_size; ++id) list.texts[id] = "[PAD" + std::to_string(id) + "]";
  for (const auto& [text, id] : tokenizer["model"]["vocab"].items()) list.set(id.get<std::size_t>(), text, kNormal);
  for (const json& token : tokenizer.value("added_tokens", json::array())) {
    const bool special = files::JsonReader(token, "added_tokens").flag("special", false);
    list.set(token["id"].get<std::size_t>(), token["content"].get<std::string>(), special ? kControl : kUserDefined);
  }
  return list;
}

/// Returns the two tokens that a merge joins.
std::pair<std::string, std::string> merged_pair(const json& merge) {
  if (merge.is_array()) return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  const auto text = merge.get<std::string>();
  const std::size_t cut = text.find(' ');
  return {text.substr(0, cut), text.substr(cut + 1)};
}

std::vector<std::string> merge_list(const json& merges) {
  std::vector<std::string> list;
  for (const json& merge : merges) {
    const auto [left, right] = merged_pair(merge);
    list.push_back(left + " " + right);
  }
  return list;
}

/// Returns the id of a special token that a configuration names by its text, or by an object with the text.
std::optional<std::uint32_t> named_id(const json& config, const char* name, const TokenList& tokens) {
  const auto found = config.find(name);
  if (found == config.end()) return {};
  const json text = found->is_object() ? found->value("content", json()) : *found;
  if (!text.is_string()) return {};
  const auto at = std::ranges::find(tokens.texts, text.get<std::string>());
  if (at == tokens.texts.end()) return {};
  return static_cast<std::uint32_t>(at - tokens.texts.begin());
}

json file_of(const std::vector<TokenizerFile>& files, std::string_view name, const std::string& context) {
  const auto found = std::ranges::find(files, name, &TokenizerFile::name);
  if (found == files.end()) return json::object();
  return files::parse_strict_json(found->content, context);
}

using Steps = std::vector<files::JsonReader>;

/// Returns the steps of a Sequence, or the single step; none for null.
Steps steps_of(const files::JsonReader& tokenizer, const char* part, const char* members) {
  const std::optional<files::JsonReader> step = tokenizer.find(part);
  if (!step) return {};
  if (step->text("type") != "Sequence") return {*step};
  return step->at(members).elements();
}

bool replaces_spaces(const files::JsonReader& step, std::string_view type) {
  const std::optional<files::JsonReader> pattern = step.find("pattern");
  return step.text("type") == type && pattern && pattern->text("String", "") == " ";
}

bool writes_space_marks(const files::JsonReader& normalizer) {
  return replaces_spaces(normalizer, "Replace") && normalizer.text("content") == kSpaceMark;
}

bool prepends_space_mark(const files::JsonReader& normalizer) {
  return normalizer.text("type") == "Prepend" && normalizer.text("prepend") == kSpaceMark;
}

/// Returns whether a step splits at spaces. If all spaces are marks already, it has no effect.
bool cuts_at_spaces(const files::JsonReader& pre_tokenizer) {
  return replaces_spaces(pre_tokenizer, "Split");
}

/// Returns whether no token would be split if each space begins a word.
bool has_marks_in_front_alone(const files::JsonReader& vocab) {
  return std::ranges::none_of(
      vocab.members(), [](const auto& token) { return token.first.find(kSpaceMark, 1) != std::string_view::npos; });
}

/// Returns whether a tokenizer with SentencePiece's spelling adds a space before a text; nullopt if spaces become
/// something other than marks.
std::optional<bool> adds_space(const files::JsonReader& tokenizer) {
  const Steps normalizers = steps_of(tokenizer, "normalizer", "normalizers");
  const Steps cuts = steps_of(tokenizer, "pre_tokenizer", "pretokenizers");
  if (!normalizers.empty() && writes_space_marks(normalizers.back())) {
    const bool adds = normalizers.size() == 2 && prepends_space_mark(normalizers.front());
    if ((adds || normalizers.size() == 1) && std::ranges::all_of(cuts, cuts_at_spaces)) return adds;
  } else if (normalizers.empty() && cuts.size() == 1 && cuts[0].text("type") == "Metaspace") {
    const files::JsonReader& cut = cuts[0];
    if (cut.text("replacement", kSpaceMark) != kSpaceMark) return {};
    if (cut.flag("split", true) && !has_marks_in_front_alone(tokenizer.at("model").at("vocab"))) return {};
    return cut.text("prepend_scheme", cut.flag("add_prefix_space", true) ? "always" : "never") != "never";
  }
  return {};
}

/// Returns scores with which SentencePiece merges in the order of a list of merges. It merges any two neighbours that
/// form a token, the one with the highest score first: throws Error if the list lacks such a pair. Tokens that no merge
/// creates have the lowest score.
std::vector<float> merge_scores(const json& model, const TokenList& tokens, const std::string& context) {
  const json& merges = model["merges"];
  std::vector<float> scores(tokens.texts.size(), -static_cast<float>(merges.size()));
  std::unordered_set<std::string> pairs;
  for (std::size_t i = merges.size(); i-- > 0;) {  // the first merge that creates a token is stored last
    const auto [left, right] = merged_pair(merges[i]);
    pairs.insert(left + " " + right);
    const auto id = model["vocab"].at(left + right).get<std::size_t>();
    if (id < scores.size()) scores[id] = -static_cast<float>(i);
  }
  std::unordered_set<std::string_view> known;  // tokens that merges create; others are found in the text earlier
  for (std::size_t id = 0; id < scores.size(); ++id) {
    if (tokens.types[id] == GgufTokenType::kNormal) known.insert(tokens.texts[id]);
  }
  const auto is_known = [&](std::string_view text) { return known.contains(text); };
  for (const std::string_view text : known) {
    for_each_pair(text, is_known, [&](std::string_view left, std::string_view right) {
      if (pairs.contains(std::string(left) + " " + std::string(right))) return;
      throw Error(context, "has the tokens " + files::in_quotes(left) + ", " + files::in_quotes(right) + " and " +
                               files::in_quotes(text) + ", and does not merge the first two: llama.cpp would");
    });
  }
  return scores;
}

bool has_all_bytes(const json& vocab) {
  for (int byte = 0; byte < 256; ++byte) {
    if (!vocab.contains(byte_token(static_cast<unsigned char>(byte)))) return false;
  }
  return true;
}

/// Writes byte-level BPE: the text is split into bytes, which are merged.
std::vector<GgufField> byte_level_fields(const json& source, const TokenList& tokens, const std::string& context) {
  const std::optional<std::string> pre = pre_tokenizer_name(source);
  if (!pre) throw Error(context, "cuts text in a way that no GGUF can name: llama.cpp would read other tokens");
  return {{"tokenizer.ggml.model", "gpt2"},
          {"tokenizer.ggml.pre", *pre},
          {"tokenizer.ggml.tokens", tokens.texts},
          {"tokenizer.ggml.token_type", tokens.type_numbers()},
          {"tokenizer.ggml.merges", merge_list(source["model"]["merges"])}};
}

/// Writes SentencePiece's BPE: characters, with marks for spaces, are merged; unknown ones become bytes.
std::vector<GgufField> space_mark_fields(const json& source, TokenList tokens, const std::string& context) {
  const files::JsonReader tokenizer(source, context);
  const files::JsonReader model = tokenizer.at("model");
  if (!model.flag("byte_fallback", false) || !has_all_bytes(source["model"]["vocab"])) {
    throw Error(context, "has no token for some bytes, which llama.cpp needs for text without other tokens");
  }
  const std::optional<bool> adds = adds_space(tokenizer);
  if (!adds || model.flag("ignore_merges", false)) {
    throw Error(context, "writes spaces or merges in a way that no GGUF can name: llama.cpp would read other tokens");
  }
  const std::string unknown = model.text("unk_token", "");
  for (std::size_t id = 0; id < tokens.texts.size(); ++id) {
    using enum GgufTokenType;
    const std::string& text = tokens.texts[id];
    if (tokens.types[id] == kUnused) continue;
    if (!unknown.empty() && text == unknown) tokens.types[id] = kUnknown;
    if (byte_of_token(text)) tokens.types[id] = kByte;
    // The token would be searched in the original text, before its spaces became marks.
    if (tokens.types[id] == kUserDefined && text.find(kSpaceMark) != std::string::npos) tokens.types[id] = kNormal;
  }
  return {{"tokenizer.ggml.model", "llama"},
          {"tokenizer.ggml.pre", "default"},
          {"tokenizer.ggml.tokens", tokens.texts},
          {"tokenizer.ggml.scores", merge_scores(source["model"], tokens, context)},
          {"tokenizer.ggml.token_type", tokens.type_numbers()},
          {"tokenizer.ggml.add_space_prefix", *adds}};
}

/// Throws Error if added tokens include surrounding spaces, or match only whole words, which a GGUF cannot express.
/// (llama.cpp handles the spaces after Phi-3's tokens itself.)
void check_added_tokens(const files::JsonReader& tokenizer) {
  if (!tokenizer.has("added_tokens")) return;
  for (const files::JsonReader& token : tokenizer.at("added_tokens").elements()) {
    for (const char* flag : {"single_word", "lstrip"}) {
      if (token.flag(flag, false))
        token.fail(flag, "true cannot be expressed in a GGUF: llama.cpp would read other tokens");
    }
  }
}

/// Returns whether the tokenizer adds only BOS and EOS around a text.
bool has_plain_frame(const Tokenizer& tokenizer) {
  const std::vector<int>& before = tokenizer.leading_special_tokens();
  const std::vector<int>& behind = tokenizer.suffix();
  const bool plain_before = before.empty() || (before.size() == 1 && tokenizer.adds_bos());
  return plain_before && (behind.empty() || (behind.size() == 1 && behind.front() == tokenizer.eos()));
}

/// Adds the end of a text, and of the other end tokens the first that ends a turn and the first that ends a message: a
/// GGUF has one field for each.
void add_end_tokens(const Tokenizer& tokenizer, std::span<const int> end_tokens, std::size_t vocab_size,
                    std::vector<GgufField>& fields) {
  std::optional<int> text_end = tokenizer.eos();
  if (!text_end && !end_tokens.empty()) text_end = end_tokens.front();
  std::optional<int> turn_end;
  std::optional<int> message_end;
  for (const int id : end_tokens) {
    if (id == text_end || tokenizer.token_bytes(id).empty()) continue;
    std::optional<int>& end = ends_message(tokenizer.token_bytes(id)) ? message_end : turn_end;
    if (!end) end = id;
  }
  const auto add = [&](const char* key, std::optional<int> id) {
    if (!id || static_cast<std::size_t>(*id) >= vocab_size) return;
    fields.push_back({"tokenizer.ggml." + std::string(key), static_cast<std::uint32_t>(*id)});
  };
  add("eos_token_id", text_end);
  add("eot_token_id", turn_end);
  add("eom_token_id", message_end);
}

}  // namespace

std::vector<GgufField> gguf_tokenizer_fields(const files::Checkpoint& checkpoint, std::size_t vocab_size,
                                             std::span<const int> end_tokens) {
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(checkpoint);
  if (tokenizer == nullptr) return {};
  const std::string context = checkpoint.path().string() + ": tokenizer";
  const std::vector<TokenizerFile> files = tokenizer->files();
  const json source = file_of(files, "tokenizer.json", context);
  const json config = file_of(files, "tokenizer_config.json", context);
  if (source.value("/model/type"_json_pointer, "") != "BPE") {
    throw Error(context, "is no BPE in a tokenizer.json; others cannot be written into a GGUF yet");
  }
  check_added_tokens(files::JsonReader(source, context));
  if (!has_plain_frame(*tokenizer)) throw Error(context, "adds other tokens around a text than a GGUF can express");
  const TokenList tokens = token_list(source, vocab_size);
  std::vector<GgufField> fields = tokenizer->is_byte_level() ? byte_level_fields(source, tokens, context)
                                                             : space_mark_fields(source, tokens, context);
  const auto add_id = [&](const char* key, std::optional<std::uint32_t> id) {
    if (id && *id < vocab_size) fields.push_back({"tokenizer.ggml." + std::string(key), *id});
  };
  add_id("bos_token_id", tokenizer->bos());
  add_end_tokens(*tokenizer, end_tokens, vocab_size, fields);
  const auto unknown = named_id(config, "unk_token", tokens);
  add_id("unknown_token_id", unknown ? unknown : named_id(source["model"], "unk_token", tokens));
  add_id("padding_token_id", named_id(config, "pad_token", tokens));
  fields.push_back({"tokenizer.ggml.add_bos_token", tokenizer->adds_bos()});
  fields.push_back({"tokenizer.ggml.add_eos_token", !tokenizer->suffix().empty()});
  if (!tokenizer->chat_template().empty()) fields.push_back({"tokenizer.chat_template", tokenizer->chat_template()});
  if (!tokenizer->tool_chat_template().empty()) {
    fields.push_back({"tokenizer.chat_templates", std::vector<std::string>{"tool_use"}});
    fields.push_back({"tokenizer.chat_template.tool_use", tokenizer->tool_chat_template()});
  }
  return fields;
}

}  // namespace ballast::text
