// What a compressed-tensors config.json says about the weights that its modules may have.
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
  std::size_t group_size = 0;       ///< 0: a scale for each row, or one for all
  std::optional<ScaleBlock> block;  ///< of floats

  bool operator==(const WeightScheme&) const = default;
};

/// Those of all `config_groups`; which of them a module has shows in the shapes of its tensors. Throws Error for what
/// ballast does not read.
std::vector<WeightScheme> read_weight_schemes(const files::JsonReader& quantization);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_CODECS_COMPRESSED_TENSORS_CONFIG_H_
