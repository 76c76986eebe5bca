// A model's recommended sampling values: generation_config.json, or a GGUF's metadata.
#ifndef BALLAST_MODEL_SOURCE_GENERATION_CONFIG_H_
#define BALLAST_MODEL_SOURCE_GENERATION_CONFIG_H_

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "ballast/spec.h"
#include "files/checkpoint.h"
#include "files/gguf/gguf_writer.h"

namespace ballast::model {

inline constexpr const char* kGenerationConfigFile = "generation_config.json";

/// Returns the ids that generation_config.json in `directory` names as ends of a text; none if there is no such file.
/// Throws Error.
std::vector<int> generation_end_tokens(const std::filesystem::path& directory);

/// Returns the token with which a decoder's text begins, if the file names one. Throws Error.
std::optional<int> generation_start_token(const std::filesystem::path& directory);

/// Returns the recommended sampling values; empty if the checkpoint has none. Throws Error naming the file and the
/// field for an invalid value.
GenerationDefaults read_generation_defaults(const files::Checkpoint& checkpoint);

/// Returns the same as metadata of a GGUF, with llama.cpp's names.
std::vector<files::GgufField> gguf_sampling_fields(const files::Checkpoint& checkpoint);

/// Returns the generation_config.json for a GGUF's values; null if it has none. Throws Error.
nlohmann::json generation_config_of_gguf(const files::Checkpoint& checkpoint);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_GENERATION_CONFIG_H_
