// Opens directories in Hugging Face's layout: config.json and safetensors.
#ifndef BALLAST_FILES_HUGGINGFACE_CHECKPOINT_H_
#define BALLAST_FILES_HUGGINGFACE_CHECKPOINT_H_

#include <filesystem>
#include <memory>

#include "files/checkpoint.h"

namespace ballast::files {

/// Opens config.json and model.safetensors, or model.safetensors.index.json and the shards it names. Throws Error.
std::unique_ptr<Checkpoint> open_huggingface(const std::filesystem::path& directory);

}  // namespace ballast::files

#endif  // BALLAST_FILES_HUGGINGFACE_CHECKPOINT_H_
