// What a model's makers say about generating text with it: generation_config.json, or a GGUF's metadata.
#ifndef BALLAST_MODEL_GENERATION_CONFIG_H_
#define BALLAST_MODEL_GENERATION_CONFIG_H_

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "ballast/spec.h"
#include "files/checkpoint.h"
#include "files/gguf/gguf_writer.h"

namespace ballast::model {

inline constexpr const char* kGenerationConfigFile = "generation_config.json";

/// The ids that generation_config.json in `directory` names as ends of a text; none without the file. Throws Error.
std::vector<int> generation_end_tokens(const std::filesystem::path& directory);

/// How texts are to be sampled; empty where the checkpoint does not say. Throws Error naming the file and the field
/// where a value cannot be one.
GenerationDefaults read_generation_defaults(const files::Checkpoint& checkpoint);

/// The same as metadata of a GGUF, in llama.cpp's names.
std::vector<files::GgufField> gguf_sampling_fields(const files::Checkpoint& checkpoint);

/// A generation_config.json that says the same of a GGUF; null where that says nothing. Throws Error.
nlohmann::json generation_config_of_gguf(const files::Checkpoint& checkpoint);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_GENERATION_CONFIG_H_
