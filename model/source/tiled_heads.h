// The order of value heads in a GGUF of a family whose Architecture says gguf_tiles_value_heads.
#ifndef BALLAST_MODEL_SOURCE_TILED_HEADS_H_
#define BALLAST_MODEL_SOURCE_TILED_HEADS_H_

#include <cstddef>
#include <vector>

#include "model/source/stored_matrix.h"

namespace ballast::model {

/// The stored row (a linear's), column (the output projection's) or value (a vector's) for each of the model's; empty:
/// as they are.
std::vector<std::size_t> tiled_head_order(const StorageLayout& layout, const LayerSpec& layer, Role role);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_TILED_HEADS_H_
