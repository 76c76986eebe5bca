// How a directory that ballast wrote is quantized: the field `quantization_config` of its config.json.
#ifndef BALLAST_MODEL_SOURCE_QUANTIZATION_CONFIG_H_
#define BALLAST_MODEL_SOURCE_QUANTIZATION_CONFIG_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ballast/activation_type.h"
#include "ballast/recipe.h"
#include "files/json_reader.h"

namespace ballast::model {

/// The value of its field `version`.
inline constexpr std::size_t kQuantizationVersion = 1;

struct QuantizationConfig {
  ActivationType activations = ActivationType::kInt16;  ///< of inputs of quantized matrices; kInt16 or kInt8
  bool activation_groups = false;
  std::set<std::string> int16_activation_modules;  ///< modules whose input is INT16 where `activations` is kInt8
  /// Formats by module name. Modules that are not listed are not quantized, except those whose matrix is in several
  /// modules, each for a range of its rows (formats::row_range_name()).
  std::map<std::string, WeightFormat> tensors;

  /// Returns the modules that hold a matrix: its own, or those of its rows' ranges, in order; empty: it is not
  /// quantized.
  std::vector<std::string> modules_of(const std::string& matrix) const;

  bool quantizes(const std::string& matrix) const { return !modules_of(matrix).empty(); }

  /// Returns the type to which the input of a module is quantized.
  ActivationType activations_of(const std::string& module) const {
    return int16_activation_modules.contains(module) ? ActivationType::kInt16 : activations;
  }
};

/// Reads the field. Throws Error for a method, a version or a value that ballast does not write.
QuantizationConfig read_quantization(const files::JsonReader& reader);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_QUANTIZATION_CONFIG_H_
