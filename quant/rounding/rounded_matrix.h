// A rounded matrix.
#ifndef BALLAST_QUANT_ROUNDING_ROUNDED_MATRIX_H_
#define BALLAST_QUANT_ROUNDING_ROUNDED_MATRIX_H_

#include <cstddef>
#include <variant>
#include <vector>

#include "formats/code_matrix.h"
#include "kernels/matrix/quantized_matrix.h"
#include "quant/rounding/quant_params.h"

namespace ballast::quant {

/// Rounded to integers, to MLX's groups, or to a GGUF's blocks.
using RoundedMatrix = formats::CodeMatrix;

/// Returns the same codes as a matrix of the kernels.
inline kernels::QuantizedMatrix runnable_matrix(const RoundedMatrix& matrix) {
  if (const auto* blocks = std::get_if<formats::BlockTensor>(&matrix)) return formats::packed_blocks(*blocks);
  if (const auto* affine = std::get_if<formats::AffineTensor>(&matrix)) return formats::packed_affine(*affine);
  return kernels::QuantizedMatrix(std::get<formats::QuantizedTensor>(matrix).view());
}

/// Returns the grids of one row's groups as stored; with a codebook, the grids of its values.
std::vector<QuantParams> grids_of_row(const QuantizedView& matrix, std::size_t row);

/// Returns the values of the codes, including outlier columns: [rows][cols]. Parallel over rows.
std::vector<float> decoded(const RoundedMatrix& matrix);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_ROUNDED_MATRIX_H_
