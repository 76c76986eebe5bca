#include "model/tokenizer/tokenizer_files.h"

#include <array>
#include <cstdint>
#include <string_view>

#include "ballast/error.h"
#include "model/checkpoint/mapped_file.h"
#include "model/checkpoint/strict_json.h"
#include "model/tokenizer/bpe_reader.h"
#include "model/tokenizer/bpe_tokenizer.h"

namespace ballast::model {
namespace {

struct OtherKind {
  std::string_view file;
  std::string_view problem;
};

// What a directory without tokenizer.json may have instead.
constexpr std::array<OtherKind, 4> kOtherKinds{{
    {"tokenizer.model", "SentencePiece models are not supported yet; only byte-level BPE in a tokenizer.json is"},
    {"vocab.txt", "WordPiece vocabularies are not supported yet; only byte-level BPE in a tokenizer.json is"},
    {"tekken.json", "Tekken vocabularies are not supported yet; only byte-level BPE in a tokenizer.json is"},
    {"vocab.json", "there is no tokenizer.json beside it; save the tokenizer with transformers' save_pretrained"},
}};

// "bos_token_id": one id, or several of which the first counts. The model's file may speak of ids that the tokenizer
// does not have; those name no token here.
std::optional<int> model_token(const nlohmann::json& model_config, const char* name) {
  if (!model_config.is_object() || !model_config.contains(name)) return std::nullopt;
  const nlohmann::json& value = model_config[name];
  const nlohmann::json& id = value.is_array() && !value.empty() ? value[0] : value;
  if (!id.is_number_integer()) return std::nullopt;
  const auto number = id.get<std::int64_t>();
  return number >= 0 && number <= kMaxTokenId ? std::optional(static_cast<int>(number)) : std::nullopt;
}

}  // namespace

std::unique_ptr<Tokenizer> read_tokenizer_directory(const std::filesystem::path& directory,
                                                    const nlohmann::json& model_config) {
  const std::filesystem::path file = directory / "tokenizer.json";
  if (!std::filesystem::exists(file)) {
    for (const OtherKind& kind : kOtherKinds) {
      const std::filesystem::path other = directory / kind.file;
      if (std::filesystem::exists(other)) throw Error(other.string(), kind.problem);
    }
    return nullptr;
  }

  TokenizerSource source;
  source.tokenizer_file = file.string();
  source.tokenizer_json = MappedFile(file).text();
  const std::filesystem::path config = directory / "tokenizer_config.json";
  source.config_file = config.string();
  if (std::filesystem::exists(config)) source.config = read_json_object(config);
  const std::filesystem::path chat_template = directory / "chat_template.jinja";
  if (std::filesystem::exists(chat_template)) source.chat_template = MappedFile(chat_template).text();
  source.bos = model_token(model_config, "bos_token_id");
  source.eos = model_token(model_config, "eos_token_id");
  return make_tokenizer(std::move(source));
}

}  // namespace ballast::model
