// A matrix of codes, with its memory.
#ifndef BALLAST_FORMATS_CODE_MATRIX_H_
#define BALLAST_FORMATS_CODE_MATRIX_H_

#include <variant>

#include "formats/affine_tensor.h"
#include "formats/block_tensor.h"
#include "formats/quantized_tensor.h"

namespace ballast::formats {

/// The codes are ballast's integers or codebook indices, MLX's groups, or a GGUF's blocks.
using CodeMatrix = std::variant<QuantizedTensor, AffineTensor, BlockTensor>;

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_CODE_MATRIX_H_
