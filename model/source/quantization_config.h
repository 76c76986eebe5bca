// How a directory that ballast wrote is quantized: config.json's `quantization_config`.
#ifndef BALLAST_MODEL_SOURCE_QUANTIZATION_CONFIG_H_
#define BALLAST_MODEL_SOURCE_QUANTIZATION_CONFIG_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "ballast/activation_type.h"
#include "ballast/recipe.h"
#include "files/json_reader.h"

namespace ballast::model {

/// Its `version`.
inline constexpr std::size_t kQuantizationVersion = 1;

struct QuantizationConfig {
  ActivationType activations = ActivationType::kInt16;  ///< before matrices of codes; kInt16 or kInt8
  bool activation_groups = false;
  std::set<std::string> int16_activation_modules;  ///< modules whose input is INT16 where `activations` is kInt8
  std::map<std::string, WeightFormat> tensors;     ///< by module name; those that are not listed are plain

  /// Returns what the input of a module becomes.
  ActivationType activations_of(const std::string& module) const {
    return int16_activation_modules.contains(module) ? ActivationType::kInt16 : activations;
  }
};

/// Throws Error for what this program does not write.
QuantizationConfig read_quantization(const files::JsonReader& reader);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_QUANTIZATION_CONFIG_H_
