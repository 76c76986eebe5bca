#include "quant/write/metadata_files.h"

#include <array>
#include <nlohmann/json.hpp>
#include <system_error>

#include "ballast/error.h"
#include "files/atomic_output.h"
#include "model/source/prefix.h"
#include "model/source/written_spec.h"
#include "text/tokenizer.h"

namespace ballast::quant {

namespace {

using nlohmann::json;

// What travels beside the weights when it exists.
constexpr std::array kTokenizerFiles = {"tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "chat_template.jinja",
                                        "generation_config.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "added_tokens.json",
                                        "tokenizer.model",
                                        "vocab.txt"};

json quantization_config(const Recipe& recipe, const StoredReport& stored) {
  const bool int8 = recipe.activations == Recipe::Activations::kInt8;
  json config = {{"quant_method", "ballast"},
                 {"version", model::kQuantizationVersion},
                 {"activations", int8 ? "int8" : "float"},
                 {"activation_groups", recipe.activation_groups},
                 {"tensors", stored.formats()}};
  if (int8) config["wide_inputs"] = stored.int16_activation_modules();
  return config;
}

json config_of(const ConvertedModel& model) {
  json config = model.source.config();
  config.erase("torch_dtype");
  const DType type = small_type(model.recipe);
  config["dtype"] = type == DType::kBF16 ? "bfloat16" : type == DType::kF16 ? "float16" : "float32";
  config["tie_word_embeddings"] = model.spec.tied_embeddings;
  json& written = config[model::kWrittenSpecField] = model::written_spec(model.spec);
  // Those that were measured without the prefix are ordinary behind it.
  if (model.statistics != nullptr && model.statistics->prefix == model.prefix) {
    json massive = json::array();
    for (const MassiveToken& token : model.statistics->massive_tokens) massive.push_back(token.token);
    written[model::kMassiveTokensField] = massive;
  }
  if (!model.prefix.empty()) written[model::kPrefixTokensField] = model.prefix;
  if (!model.stored.formats().empty()) {
    config["quantization_config"] = quantization_config(model.recipe, model.stored);
  }
  return config;
}

void write_tokenizer(const model::ModelSource& source, const std::filesystem::path& directory) {
  if (source.checkpoint().kind() == files::Checkpoint::Kind::kGguf) {
    const auto tokenizer = text::load_tokenizer(source.checkpoint());
    if (tokenizer == nullptr) return;
    for (const text::TokenizerFile& file : tokenizer->files()) {
      files::write_file_atomically(directory / file.name, file.content, false);
    }
    return;
  }
  for (const char* name : kTokenizerFiles) {
    const std::filesystem::path original = source.checkpoint().path() / name;
    if (!std::filesystem::exists(original)) continue;
    std::error_code error;
    std::filesystem::copy_file(original, directory / name, error);
    if (error) throw Error((directory / name).string(), error.message());
  }
}

}  // namespace

void write_metadata_files(const ConvertedModel& model, const std::filesystem::path& directory) {
  files::write_file_atomically(directory / "config.json", config_of(model).dump(2) + "\n", false);
  files::write_file_atomically(directory / "recipe.json", recipe_json(model.recipe), false);
  write_tokenizer(model.source, directory);
}

}  // namespace ballast::quant
