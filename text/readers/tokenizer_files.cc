#include "text/readers/tokenizer_files.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ballast/error.h"
#include "files/mapped_file.h"
#include "files/strict_json.h"
#include "files/text.h"
#include "files/utf8.h"
#include "text/readers/bare_vocabulary.h"
#include "text/readers/byte_tokenizer.h"
#include "text/readers/class_tokenizer.h"
#include "text/readers/json_tokenizer.h"
#include "text/readers/piece_files.h"
#include "text/readers/ranked_vocabulary.h"
#include "text/readers/tokenizer_class.h"
#include "text/readers/tokenizer_reader.h"
#include "text/subword/sentencepiece_tokenizer.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {
namespace {

constexpr const char* kTekkenFile = "tekken.json";
constexpr const char* kRoberta = "roberta";

// Returns the first of several ids. The model's file may have ids that the tokenizer does not have.
std::optional<int> model_token(const files::JsonReader& model_config, std::string_view field) {
  const std::vector<int> ids = read_token_ids(model_config, field);
  return ids.empty() ? std::nullopt : std::optional(ids.front());
}

// Adds the names of special_tokens_map.json that tokenizer_config.json lacks. A name that is null there has no token.
void add_token_names(const std::filesystem::path& directory, nlohmann::json& config) {
  const std::filesystem::path names = directory / "special_tokens_map.json";
  if (!std::filesystem::exists(names)) return;
  const nlohmann::json map = files::read_json_object(names);
  for (const auto& [name, token] : map.items()) {
    const bool several = name == "additional_special_tokens" || name == "extra_special_tokens";
    if ((several || name.ends_with("_token")) && !config.contains(name)) config[name] = token;
  }
}

// Adds the tokens of added_tokens.json of older files in the form of tokenizer_config.json. A tokenizer.json contains
// them.
void add_separate_tokens(const std::filesystem::path& directory, nlohmann::json& config) {
  const std::filesystem::path added = directory / "added_tokens.json";
  if (!std::filesystem::exists(added) || config.contains("added_tokens_decoder")) return;
  const nlohmann::json ids = files::read_json_object(added);
  for (const auto& [content, id] : files::JsonReader(ids, added.string()).members()) {
    const int value = read_token_id(id);
    config["added_tokens_decoder"][std::to_string(value)] = {{"content", content}, {"special", false}};
  }
}

// Returns kRoberta or the GGUF name of the class of tokenizers to which vocab.json and merges.txt belong.
std::string bpe_family(const files::JsonReader& config, const files::JsonReader& model_config,
                       const std::string& file) {
  const std::string name = config.text("tokenizer_class", model_config.text("model_type", ""));
  if (name.starts_with("GPT2Tokenizer") || name == "gpt2") return "gpt-2";
  if (name.starts_with("Qwen2Tokenizer") || name == "qwen2" || name == "qwen3") return "qwen2";
  if (name.starts_with("RobertaTokenizer") || name == "roberta") return kRoberta;
  if (name.starts_with("BartTokenizer") || name == "bart") return kRoberta;
  throw Error(file,
              "how text is cut for it is known for GPT2Tokenizer, Qwen2Tokenizer, RobertaTokenizer and "
              "BartTokenizer only" +
                  (name.empty() ? std::string() : ", not for " + files::in_quotes(name)) +
                  "; save a tokenizer.json with transformers' save_pretrained");
}

// Returns the same for a list of ranks.
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

// Reads Jinja text as Python reads a file: without a byte order mark.
std::string read_template_file(const std::filesystem::path& file) {
  std::string text = files::read_whole_file(file);
  if (!files::is_utf8(text)) throw Error(file.string(), "is not UTF-8");
  if (text.starts_with(files::kByteOrderMark)) text.erase(0, files::kByteOrderMark.size());
  return text;
}

// Reads templates in separate files with the precedence of transformers: chat_template.jinja and the folder of others
// override tokenizer_config.json. chat_template.json belongs to the processor of a multimodal model, and is used if the
// tokenizer has no template.
void read_template_files(const std::filesystem::path& directory, TokenizerSource& source) {
  const std::filesystem::path others = directory / "additional_chat_templates";
  const auto read = [](const std::filesystem::path& file) {
    return std::filesystem::exists(file) ? read_template_file(file) : std::string();
  };
  source.chat_template = read(directory / "chat_template.jinja");
  if (source.chat_template.empty()) source.chat_template = read(others / "default.jinja");
  source.tool_chat_template = read(others / "tool_use.jinja");
  const std::filesystem::path processor = directory / "chat_template.json";
  if (!source.chat_template.empty() || !std::filesystem::exists(processor)) return;
  if (source.config.contains("chat_template") && !source.config["chat_template"].is_null()) return;
  const nlohmann::json value = files::read_json_object(processor);
  const files::JsonReader config(value, processor.string());
  source.chat_template = read_chat_template(config);
  if (source.tool_chat_template.empty()) source.tool_chat_template = read_named_chat_template(config, "tool_use");
}

// Returns the id from the model's file for a token that the tokenizer's files do not name.
std::optional<int> unnamed_token(const nlohmann::json& config, const char* name, const files::JsonReader& model_config,
                                 std::string_view field) {
  return config.contains(name) ? std::nullopt : model_token(model_config, field);
}

std::unique_ptr<Tokenizer> read_tokenizer_json(const std::filesystem::path& directory, TokenizerSource source) {
  const std::filesystem::path file = directory / kTokenizerJson;
  source.tokenizer_file = file.string();
  source.tokenizer_data = files::read_whole_file(file);
  return make_tokenizer(std::move(source));
}

std::unique_ptr<Tokenizer> read_tekken_file(const std::filesystem::path& directory, TokenizerSource source) {
  const std::filesystem::path file = directory / kTekkenFile;
  source.tokenizer_file = file.string();
  add_separate_tokens(directory, source.config);
  source.tokenizer_data = read_tekken(files::read_whole_file(file), source.tokenizer_file, source.config).dump();
  return make_tokenizer(std::move(source));
}

// Returns the first id with different tokens in both files; nullopt if there is none. A token that tokenizer.json calls
// unused may have a name in tekken.json.
std::optional<int> first_difference(const Tokenizer& tekken, const Tokenizer& other) {
  for (std::size_t i = 0; i < std::max(tekken.vocab_size(), other.vocab_size()); ++i) {
    const int id = static_cast<int>(i);
    const std::string token = other.token_bytes(id);
    if (token != tekken.token_bytes(id) && !token.starts_with("<SPECIAL_")) return id;
  }
  return std::nullopt;
}

// Mistral's directories contain the tokenizer twice. If both files have the same tokens they may still split text
// differently, and the model was trained with mistral_common, which reads tekken.json. If they have different tokens,
// tokenizer.json was changed and tekken.json was not (fine-tuned models that name unused tokens): then the tokens that
// chat templates write are in tokenizer.json.
std::unique_ptr<Tokenizer> read_mistral_directory(const std::filesystem::path& directory, TokenizerSource source) {
  TokenizerSource for_json = source;
  std::string problem;
  try {
    std::unique_ptr<Tokenizer> tekken = read_tekken_file(directory, std::move(source));
    const std::optional<int> other = first_difference(*tekken, *read_tokenizer_json(directory, for_json));
    if (!other) return tekken;
    problem = files::concat("has another token with id ", *other, " than tokenizer.json");
  } catch (const Error& error) {
    problem = error.what();
  }
  for_json.warnings.push_back((directory / kTekkenFile).string() + ": " + problem + ": tokenizer.json is used");
  return read_tokenizer_json(directory, std::move(for_json));
}

std::unique_ptr<Tokenizer> read_tokenizer_of_class(TokenizerClass tokenizer_class,
                                                   const std::filesystem::path& directory, TokenizerSource source) {
  switch (tokenizer_class) {
    case TokenizerClass::kByT5:
      return read_byt5(directory, std::move(source));
    case TokenizerClass::kMarian:
      return read_marian(directory, std::move(source));
    case TokenizerClass::kM2M100:
      return read_m2m100(directory, std::move(source));
    default:
      return read_class_tokenizer(tokenizer_class, directory, std::move(source));
  }
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
  const TokenizerClass tokenizer_class =
      find_tokenizer_class(files::JsonReader(source.config, source.config_file), model_config, exists(kTokenizerJson));
  if (tokenizer_class != TokenizerClass::kOther) {
    read_template_files(directory, source);
    return read_tokenizer_of_class(tokenizer_class, directory, std::move(source));
  }
  add_token_names(directory, source.config);
  read_template_files(directory, source);
  source.bos = unnamed_token(source.config, "bos_token", model_config, "bos_token_id");
  source.eos = unnamed_token(source.config, "eos_token", model_config, "eos_token_id");

  if (exists(kTokenizerJson) && exists(kTekkenFile)) return read_mistral_directory(directory, std::move(source));
  if (exists(kTokenizerJson)) return read_tokenizer_json(directory, std::move(source));
  const auto use = [&](const char* name) {
    source.tokenizer_file = (directory / name).string();
    add_separate_tokens(directory, source.config);
  };
  for (const char* name : {"tokenizer.model", "tiktoken.model", "qwen.tiktoken"}) {
    if (!exists(name)) continue;
    use(name);
    std::string content = files::read_whole_file(directory / name);
    if (std::string_view(name) == "tokenizer.model" && !is_rank_list(content)) {
      source.tokenizer_data = std::move(content);
      return make_sentencepiece_tokenizer(std::move(source));
    }
    const std::string family =
        ranked_family(files::JsonReader(source.config, source.config_file), model_config, source.tokenizer_file);
    source.tokenizer_data = read_rank_list(content, source.tokenizer_file, family, source.config).dump();
    return make_tokenizer(std::move(source));
  }
  if (exists(kTekkenFile)) return read_tekken_file(directory, std::move(source));
  if (exists("vocab.txt")) {
    use("vocab.txt");
    source.tokenizer_data = read_word_piece_files(directory / "vocab.txt", source.config).dump();
    return make_tokenizer(std::move(source));
  }
  if (exists("vocab.json") && exists("merges.txt")) {
    use("vocab.json");
    const std::string family =
        bpe_family(files::JsonReader(source.config, source.config_file), model_config, source.tokenizer_file);
    const nlohmann::json tokenizer =
        family == kRoberta ? read_roberta_files(directory, source.config, source.config_file)
                           : read_bpe_files(directory / "vocab.json", directory / "merges.txt", family, source.config);
    source.tokenizer_data = tokenizer.dump();
    return make_tokenizer(std::move(source));
  }
  return nullptr;
}

}  // namespace ballast::text
