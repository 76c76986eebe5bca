// A matrix in MLX's groups, with its memory.
#ifndef BALLAST_FORMATS_AFFINE_TENSOR_H_
#define BALLAST_FORMATS_AFFINE_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ballast/tensor.h"
#include "kernels/matrix/quantized_matrix.h"

namespace ballast::formats {

/// w[r][c] = code * scale + offset, with the scale and offset of the group of column c.
struct AffineTensor {
  std::size_t rows = 0;
  std::size_t cols = 0;                ///< whole groups
  int bits = 4;                        ///< 2 to 6; or 8, where offsets are -128 times the scales
  std::size_t group_size = 0;          ///< a multiple of 32
  DType half_type = DType::kF16;       ///< kF16 or kBF16, of scales and offsets
  std::vector<std::uint8_t> codes;     ///< [rows][packed_row_bytes(cols, bits)]
  std::vector<std::uint16_t> scales;   ///< [rows][groups()]
  std::vector<std::uint16_t> offsets;  ///< [rows][groups()]

  std::size_t groups() const { return cols / group_size; }
};

/// Returns the same codes in the layout of the kernels.
kernels::QuantizedMatrix packed_affine(const AffineTensor& tensor);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_AFFINE_TENSOR_H_
