#include "text/readers/tokenizer_files.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "ballast/error.h"
#include "files/mapped_file.h"
#include "files/strict_json.h"
#include "files/text.h"
#include "files/utf8.h"
#include "text/readers/bare_vocabulary.h"
#include "text/readers/json_tokenizer.h"
#include "text/readers/ranked_vocabulary.h"
#include "text/subword/sentencepiece_tokenizer.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {
namespace {

constexpr const char* kTokenizerJson = "tokenizer.json";

// Of several the first counts. The model's file may speak of ids that the tokenizer does not have.
std::optional<int> model_token(const files::JsonReader& model_config, std::string_view field) {
  const std::vector<int> ids = read_token_ids(model_config, field);
  return ids.empty() ? std::nullopt : std::optional(ids.front());
}

// What older files spread over tokenizer_config.json, special_tokens_map.json and added_tokens.json, as the first would
// say it. A tokenizer.json has the same inside.
void add_separate_tokens(const std::filesystem::path& directory, nlohmann::json& config) {
  const std::filesystem::path names = directory / "special_tokens_map.json";
  if (std::filesystem::exists(names)) {
    const nlohmann::json map = files::read_json_object(names);
    for (const auto& [name, token] : map.items()) {
      if (name.ends_with("_token") && !config.contains(name)) config[name] = token;
    }
  }
  const std::filesystem::path added = directory / "added_tokens.json";
  if (!std::filesystem::exists(added) || config.contains("added_tokens_decoder")) return;
  const nlohmann::json ids = files::read_json_object(added);
  for (const auto& [content, id] : files::JsonReader(ids, added.string()).members()) {
    const int value = read_token_id(id);
    config["added_tokens_decoder"][std::to_string(value)] = {{"content", content}, {"special", false}};
  }
}

// The class of tokenizers that vocab.json and merges.txt belong to, under the name that GGUF files have for it.
std::string bpe_family(const files::JsonReader& config, const files::JsonReader& model_config,
                       const std::string& file) {
  const std::string name = config.text("tokenizer_class", model_config.text("model_type", ""));
  if (name.starts_with("GPT2Tokenizer") || name == "gpt2") return "gpt-2";
  if (name.starts_with("Qwen2Tokenizer") || name == "qwen2" || name == "qwen3") return "qwen2";
  throw Error(file, "how text is cut for it is known for GPT2Tokenizer and Qwen2Tokenizer only" +
                        (name.empty() ? std::string() : ", not for " + files::in_quotes(name)) +
                        "; save a tokenizer.json with transformers' save_pretrained");
}

// The same for a list of ranks.
std::string ranked_family(const files::JsonReader& config, const files::JsonReader& model_config,
                          const std::string& file) {
  const std::string model_type = model_config.text("model_type", "");
  const std::string tokenizer_class = config.text("tokenizer_class", "");
  if (model_type.starts_with("kimi") || tokenizer_class == "TikTokenTokenizer") return "kimi-k2";
  if (model_type == "qwen" || tokenizer_class == "QWenTokenizer") return "qwen2";
  if (model_type == "llama" || model_type == "mllama") return "llama-bpe";
  if (model_type == "llama4" || model_type == "llama4_text" || model_type == "gpt_oss") return "gpt-4o";
  throw Error(file, "how text is cut for it is known for Kimi, Qwen 1, Llama 3 and 4 and gpt-oss only" +
                        (model_type.empty() ? std::string() : ", not for " + files::in_quotes(model_type)) +
                        "; save a tokenizer.json with transformers' save_pretrained");
}

}  // namespace

std::unique_ptr<Tokenizer> read_tokenizer_directory(const std::filesystem::path& directory,
                                                    const nlohmann::json& model_config_json) {
  const files::JsonReader model_config(model_config_json, (directory / "config.json").string());
  const auto exists = [&](const char* name) { return std::filesystem::exists(directory / name); };
  TokenizerSource source;
  const std::filesystem::path config = directory / "tokenizer_config.json";
  source.config_file = config.string();
  if (exists("tokenizer_config.json")) source.config = files::read_json_object(config);
  if (const std::filesystem::path chat = directory / "chat_template.jinja"; exists("chat_template.jinja")) {
    source.chat_template = files::MappedFile(chat).text();
    if (!files::is_utf8(source.chat_template)) throw Error(chat.string(), "is not UTF-8");
  }
  source.bos = model_token(model_config, "bos_token_id");
  source.eos = model_token(model_config, "eos_token_id");

  const auto use = [&](const char* name) {
    source.tokenizer_file = (directory / name).string();
    if (name != kTokenizerJson) add_separate_tokens(directory, source.config);
  };
  if (exists(kTokenizerJson)) {
    use(kTokenizerJson);
    source.tokenizer_data = files::MappedFile(directory / kTokenizerJson).text();
    return make_tokenizer(std::move(source));
  }
  for (const char* name : {"tokenizer.model", "tiktoken.model", "qwen.tiktoken"}) {
    if (!exists(name)) continue;
    use(name);
    const files::MappedFile file(directory / name);
    if (std::string_view(name) == "tokenizer.model" && !is_rank_list(file.text())) {
      source.tokenizer_data = file.text();
      return make_sentencepiece_tokenizer(std::move(source));
    }
    const std::string family =
        ranked_family(files::JsonReader(source.config, source.config_file), model_config, source.tokenizer_file);
    source.tokenizer_data = read_rank_list(file.text(), source.tokenizer_file, family, source.config).dump();
    return make_tokenizer(std::move(source));
  }
  if (exists("tekken.json")) {
    use("tekken.json");
    source.tokenizer_data =
        read_tekken(files::MappedFile(directory / "tekken.json").text(), source.tokenizer_file, source.config).dump();
    return make_tokenizer(std::move(source));
  }
  if (exists("vocab.txt")) {
    use("vocab.txt");
    source.tokenizer_data = read_word_piece_files(directory / "vocab.txt", source.config).dump();
    return make_tokenizer(std::move(source));
  }
  if (exists("vocab.json") && exists("merges.txt")) {
    use("vocab.json");
    const std::string family =
        bpe_family(files::JsonReader(source.config, source.config_file), model_config, source.tokenizer_file);
    source.tokenizer_data =
        read_bpe_files(directory / "vocab.json", directory / "merges.txt", family, source.config).dump();
    return make_tokenizer(std::move(source));
  }
  return nullptr;
}

}  // namespace ballast::text
