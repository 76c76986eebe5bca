#include "quant/rounding/float_product.h"

#include <algorithm>

#include "kernels/float_gemm.h"

namespace ballast::quant {

namespace {

// From this number of tokens on, errors of single products do not show in sums.
constexpr std::size_t kManyRows = 256;

}  // namespace

void transpose(const float* src, std::size_t rows, std::size_t cols, std::span<const float> weights,
               std::vector<float>& dst) {
  dst.resize(rows * cols);
#pragma omp parallel for
  for (std::size_t c0 = 0; c0 < cols; c0 += kTransposedTile) {
    for (std::size_t r0 = 0; r0 < rows; r0 += kTransposedTile) {
      for (std::size_t c = c0; c < std::min(cols, c0 + kTransposedTile); ++c) {
        for (std::size_t r = r0; r < std::min(rows, r0 + kTransposedTile); ++r) {
          dst[c * rows + r] = src[r * cols + c] * (weights.empty() ? 1.0F : weights[r]);
        }
      }
    }
  }
}

bool sums_in_bf16(std::size_t rows) {
  return rows >= kManyRows && kernels::multiplies_bf16();
}

}  // namespace ballast::quant
