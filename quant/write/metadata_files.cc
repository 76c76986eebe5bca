#include "quant/write/metadata_files.h"

#include <array>
#include <nlohmann/json.hpp>
#include <system_error>

#include "ballast/error.h"
#include "files/atomic_output.h"
#include "files/format_version.h"
#include "jobs/written_by.h"
#include "model/source/generation_config.h"
#include "model/source/prefix.h"
#include "model/source/quantization_config.h"
#include "model/source/sentence_modules.h"
#include "model/source/token_heads.h"
#include "model/source/written_spec.h"
#include "text/tokenizer.h"

namespace ballast::quant {

nlohmann::json unquantized_config(const ModelMetadata& metadata) {
  nlohmann::json config = metadata.config;
  for (const char* of_original : {"quantization_config", "quantization"}) config.erase(of_original);
  return config;
}

namespace {

using nlohmann::json;

// Files that are copied with the weights if they exist.
constexpr std::array kTokenizerFiles = {"tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "chat_template.jinja",
                                        "chat_template.json",
                                        model::kGenerationConfigFile,
                                        "vocab.json",
                                        "target_vocab.json",
                                        "spiece.model",
                                        "sentencepiece.bpe.model",
                                        "source.spm",
                                        "target.spm",
                                        "merges.txt",
                                        "added_tokens.json",
                                        "tokenizer.model",
                                        "vocab.txt",
                                        "tekken.json",
                                        "tiktoken.model",
                                        "qwen.tiktoken"};

json quantization_config(const Recipe& recipe, const QuantizedModules& quantized) {
  const bool int8 = recipe.activations == ActivationType::kInt8;
  json config = {{"quant_method", "ballast"},
                 {"version", model::kQuantizationVersion},
                 {files::kWrittenByField, jobs::written_by()},
                 {"activations", int8 ? "int8" : "float"},
                 {"activation_groups", recipe.activation_groups},
                 {"tensors", quantized.formats}};
  if (int8) config["wide_inputs"] = quantized.int16_activations;
  return config;
}

json config_of(const ModelMetadata& metadata, const QuantizedModules& quantized, DType dtype) {
  json config = unquantized_config(metadata);
  config.erase("torch_dtype");
  config["dtype"] = dtype == DType::kBF16 ? "bfloat16" : dtype == DType::kF16 ? "float16" : "float32";
  config["tie_word_embeddings"] = metadata.spec.tied_embeddings;
  json& written = config[model::kWrittenSpecField] = model::written_spec(metadata.spec);
  written[files::kWrittenByField] = jobs::written_by();
  if (metadata.massive_tokens) written[model::kMassiveTokensField] = *metadata.massive_tokens;
  if (!metadata.prefix.empty()) written[model::kPrefixTokensField] = json(metadata.prefix);
  if (!quantized.formats.empty()) config["quantization_config"] = quantization_config(metadata.recipe, quantized);
  return config;
}

void copy_beside(const std::filesystem::path& source, const std::filesystem::path& copy) {
  std::error_code error;
  std::filesystem::copy_file(source, copy, error);
  if (error) throw Error(copy.string(), error.message());
}

/// Copies the modules for vectors of texts and of their tokens.
void write_vector_modules(const ModelMetadata& metadata, const std::filesystem::path& directory) {
  const std::filesystem::path& original = metadata.original.path();
  for (const std::filesystem::path& file : model::token_head_files(original)) {
    copy_beside(original / file, directory / file);
  }
  if (!metadata.spec.text_vectors) return;
  for (const std::filesystem::path& file : model::dense_module_files(original, *metadata.spec.text_vectors)) {
    std::error_code error;
    std::filesystem::create_directories((directory / file).parent_path(), error);
    if (error) throw Error((directory / file).parent_path().string(), error.message());
    copy_beside(original / file, directory / file);
  }
}

/// Copies chat templates other than chat_template.jinja.
void copy_templates(const std::filesystem::path& original, const std::filesystem::path& directory) {
  constexpr const char* kFolder = "additional_chat_templates";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(original / kFolder, error)) {
    if (entry.path().extension() != ".jinja" || !entry.is_regular_file()) continue;
    std::filesystem::create_directories(directory / kFolder, error);
    copy_beside(entry.path(), directory / kFolder / entry.path().filename());
  }
}

/// Copies a directory's generation_config.json, or writes it from a GGUF's metadata.
void write_generation_config(const files::Checkpoint& original, const std::filesystem::path& directory) {
  if (original.kind() != files::Checkpoint::Kind::kGguf) return;  // copied
  const json config = model::generation_config_of_gguf(original);
  if (config.is_null()) return;
  files::write_file_atomically(directory / model::kGenerationConfigFile, config.dump(2) + "\n", false);
}

void write_tokenizer(const files::Checkpoint& original, const std::filesystem::path& directory) {
  if (original.kind() == files::Checkpoint::Kind::kGguf) {
    const auto tokenizer = text::load_tokenizer(original);
    if (tokenizer == nullptr) return;
    for (const text::TokenizerFile& file : tokenizer->files()) {
      files::write_file_atomically(directory / file.name, file.content, false);
    }
    return;
  }
  copy_templates(original.path(), directory);
  for (const char* name : kTokenizerFiles) {
    const std::filesystem::path source = original.path() / name;
    if (!std::filesystem::exists(source)) continue;
    copy_beside(source, directory / name);
  }
}

}  // namespace

void write_metadata_files(const ModelMetadata& metadata, const QuantizedModules& quantized, DType dtype,
                          const std::filesystem::path& directory) {
  write_model_files(metadata, config_of(metadata, quantized, dtype), directory);
}

void write_model_files(const ModelMetadata& metadata, const nlohmann::json& config,
                       const std::filesystem::path& directory) {
  files::write_file_atomically(directory / "config.json", config.dump(2) + "\n", false);
  files::write_file_atomically(directory / "recipe.json", recipe_json(metadata.recipe), false);
  write_tokenizer(metadata.original, directory);
  write_generation_config(metadata.original, directory);
  write_vector_modules(metadata, directory);
}

}  // namespace ballast::quant
