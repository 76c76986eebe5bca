// The weight schemes in the config.json of a compressed-tensors checkpoint.
#ifndef BALLAST_FORMATS_CODECS_COMPRESSED_TENSORS_CONFIG_H_
#define BALLAST_FORMATS_CODECS_COMPRESSED_TENSORS_CONFIG_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "files/json_reader.h"
#include "formats/codecs/float8.h"

namespace ballast::formats {

struct WeightScheme {
  bool is_float = false;
  int bits = 8;
  bool symmetric = true;
  std::size_t group_size = 0;       ///< 0: one scale per row, or for the whole matrix
  std::optional<ScaleBlock> block;  ///< for floats of 8 bits

  bool is_float4() const { return is_float && bits == 4; }  ///< NVFP4
  bool is_float8() const { return is_float && bits == 8; }

  bool operator==(const WeightScheme&) const = default;
};

/// Returns the schemes of all `config_groups`; the shapes of a module's tensors determine which one it has. Throws
/// Error for schemes that ballast does not support.
std::vector<WeightScheme> read_weight_schemes(const files::JsonReader& quantization);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_CODECS_COMPRESSED_TENSORS_CONFIG_H_
