// Directories as Hugging Face lays them out: config.json beside safetensors.
#ifndef BALLAST_MODEL_CHECKPOINT_HUGGINGFACE_CHECKPOINT_H_
#define BALLAST_MODEL_CHECKPOINT_HUGGINGFACE_CHECKPOINT_H_

#include <filesystem>
#include <memory>

#include "model/checkpoint/checkpoint.h"

namespace ballast::model {

/// Opens config.json and model.safetensors, or model.safetensors.index.json and the shards it names. Throws Error.
std::unique_ptr<Checkpoint> open_huggingface(const std::filesystem::path& directory);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_CHECKPOINT_HUGGINGFACE_CHECKPOINT_H_
