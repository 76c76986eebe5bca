// The files of a converted model other than its tensors.
#ifndef BALLAST_QUANT_WRITE_METADATA_FILES_H_
#define BALLAST_QUANT_WRITE_METADATA_FILES_H_

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ballast/tensor.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

/// The matrices of integers, by module name.
struct QuantizedModules {
  std::map<std::string, std::string> formats;  ///< "int4-g32-asym"
  std::vector<std::string> int16_activations;  ///< those whose input becomes INT16
};

/// Returns the original's config.json without fields about quantized weights.
nlohmann::json unquantized_config(const ModelMetadata& metadata);

/// Writes config.json, recipe.json and the tokenizer's files. `dtype` is the type of everything but matrices. Throws
/// Error.
void write_metadata_files(const ModelMetadata& metadata, const QuantizedModules& quantized, DType dtype,
                          const std::filesystem::path& directory);

/// Writes the same with a given config.json.
void write_model_files(const ModelMetadata& metadata, const nlohmann::json& config,
                       const std::filesystem::path& directory);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_WRITE_METADATA_FILES_H_
