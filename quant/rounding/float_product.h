// Products of matrices in F32, as rounding and its factors need them.
#ifndef BALLAST_QUANT_ROUNDING_FLOAT_PRODUCT_H_
#define BALLAST_QUANT_ROUNDING_FLOAT_PRODUCT_H_

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/matrix/float_matrix.h"

namespace ballast::quant {

/// The destination of a product: rows `stride` floats apart.
struct FloatProduct {
  float* dst = nullptr;
  std::size_t stride = 0;
  bool accumulate = false;  ///< add to dst
  bool in_bf16 = false;     ///< both sides rounded to BF16; needs kernels::multiplies_bf16()
};

/// The product is left right^T, [rows of left][rows of right]; both have `cols` columns.
inline void multiply_transposed(std::span<const float> left, std::span<const float> right, std::size_t cols,
                                const FloatProduct& product) {
  const kernels::FloatMatrix matrix = {
      .data = right.data(), .type = kernels::FloatType::kF32, .rows = right.size() / cols, .cols = cols};
  const kernels::FloatOutput output = {
      .matrix = &matrix, .dst = product.dst, .stride = product.stride, .accumulate = product.accumulate};
  kernels::matmul({&output, 1}, left.data(), left.size() / cols, {.bf16_products = product.in_bf16});
}

/// A tile of one cache line in both directions.
inline constexpr std::size_t kTransposedTile = 16;

/// dst [cols][rows] = src^T, each row of src multiplied with its weight, if there are any.
void transpose(const float* src, std::size_t rows, std::size_t cols, std::span<const float> weights,
               std::vector<float>& dst);

/// Returns whether a sum of products over this many tokens is computed in BF16.
bool sums_in_bf16(std::size_t rows);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_FLOAT_PRODUCT_H_
