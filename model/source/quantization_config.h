// How a directory that ballast wrote is quantized: config.json's `quantization_config`.
#ifndef BALLAST_MODEL_SOURCE_QUANTIZATION_CONFIG_H_
#define BALLAST_MODEL_SOURCE_QUANTIZATION_CONFIG_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "ballast/recipe.h"
#include "files/json_reader.h"

namespace ballast::model {

/// Its `version`.
inline constexpr std::size_t kQuantizationVersion = 1;

struct QuantizationConfig {
  bool int8_activations = false;
  bool activation_groups = false;
  std::set<std::string> int16_activation_modules;  ///< modules whose input keeps 16 bits all the same
  std::map<std::string, WeightFormat> tensors;     ///< by module name; those that are not listed are plain
};

/// Throws Error for what this program does not write.
QuantizationConfig read_quantization(const files::JsonReader& reader);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_QUANTIZATION_CONFIG_H_
