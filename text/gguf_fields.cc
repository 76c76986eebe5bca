#include "text/gguf_fields.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "ballast/error.h"
#include "files/strict_json.h"
#include "text/pipeline/pre_tokenizer_families.h"
#include "text/tokenizer.h"

namespace ballast::text {
namespace {

using files::GgufField;
using nlohmann::json;

// Numbers that GGUF gives to kinds of tokens.
constexpr std::int32_t kNormal = 1;
constexpr std::int32_t kControl = 3;
constexpr std::int32_t kUserDefined = 4;
constexpr std::int32_t kUnused = 5;

struct TokenList {
  std::vector<std::string> texts;
  std::vector<std::int32_t> types;

  void set(std::size_t id, const std::string& text, std::int32_t type) {
    if (id >= texts.size()) return;
    texts[id] = text;
    types[id] = type;
  }
};

/// All tokens; rows that pad the embedding have names of their own, for all must differ.
TokenList token_list(const json& tokenizer, std::size_t vocab_size) {
  TokenList list{std::vector<std::string>(vocab_size), std::vector<std::int32_t>(vocab_size, kUnused)};
  for (std::size_t id = 0; id < vocab_size; ++id) list.texts[id] = "[PAD" + std::to_string(id) + "]";
  for (const auto& [text, id] : tokenizer["model"]["vocab"].items()) list.set(id.get<std::size_t>(), text, kNormal);
  for (const json& token : tokenizer.value("added_tokens", json::array())) {
    list.set(token["id"].get<std::size_t>(), token["content"].get<std::string>(),
             token.value("special", false) ? kControl : kUserDefined);
  }
  return list;
}

std::vector<std::string> merge_list(const json& merges) {
  std::vector<std::string> list;
  for (const json& merge : merges) {
    list.push_back(merge.is_string() ? merge.get<std::string>()
                                     : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  return list;
}

/// The id of a special token that a configuration names by its text, or by an object that holds that.
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

}  // namespace

std::vector<GgufField> gguf_tokenizer_fields(const files::Checkpoint& checkpoint, std::size_t vocab_size) {
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(checkpoint);
  if (tokenizer == nullptr) return {};
  const std::string context = checkpoint.path().string() + ": tokenizer";
  const std::vector<TokenizerFile> files = tokenizer->files();
  const json source = file_of(files, "tokenizer.json", context);
  const json config = file_of(files, "tokenizer_config.json", context);
  const bool merges = source.value("/model/type"_json_pointer, "") == "BPE" && tokenizer->is_byte_level();
  if (!merges) throw Error(context, "is no byte-level BPE; others cannot be written into a GGUF yet");
  const std::optional<std::string> pre = pre_tokenizer_name(source);
  if (!pre) throw Error(context, "cuts text in a way that no GGUF can name: llama.cpp would read other tokens");

  const TokenList tokens = token_list(source, vocab_size);
  std::vector<GgufField> fields = {{"tokenizer.ggml.model", "gpt2"},
                                   {"tokenizer.ggml.pre", *pre},
                                   {"tokenizer.ggml.tokens", tokens.texts},
                                   {"tokenizer.ggml.token_type", tokens.types},
                                   {"tokenizer.ggml.merges", merge_list(source["model"]["merges"])}};
  const auto add_id = [&](const char* key, std::optional<std::uint32_t> id) {
    if (id) fields.push_back({"tokenizer.ggml." + std::string(key), *id});
  };
  add_id("bos_token_id", tokenizer->bos());
  add_id("eos_token_id", tokenizer->eos());
  add_id("unknown_token_id", named_id(config, "unk_token", tokens));
  add_id("padding_token_id", named_id(config, "pad_token", tokens));
  fields.push_back({"tokenizer.ggml.add_bos_token", tokenizer->adds_bos()});
  if (!tokenizer->chat_template().empty()) fields.push_back({"tokenizer.chat_template", tokenizer->chat_template()});
  return fields;
}

}  // namespace ballast::text
