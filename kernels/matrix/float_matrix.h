// Products of F32 activations with F32, F16 or BF16 weights, which are read where they are stored (usually a mapped
// file) or in panels.
#ifndef BALLAST_KERNELS_MATRIX_FLOAT_MATRIX_H_
#define BALLAST_KERNELS_MATRIX_FLOAT_MATRIX_H_

#include <cstddef>
#include <memory>
#include <span>

#include "ballast/compute_options.h"

namespace ballast::kernels {

enum class FloatType { kF32, kF16, kBF16 };

constexpr std::size_t float_type_bytes(FloatType type) {
  return type == FloatType::kF32 ? 4 : 2;
}

/// View of weights [rows = outputs, cols = inputs], row-major and dense; the address need not be aligned.
struct FloatMatrix {
  const void* data = nullptr;
  FloatType type = FloatType::kF32;
  std::size_t rows = 0;
  std::size_t cols = 0;
  bool in_panels = false;  ///< in the order of FloatPanels
};

/// A copy of a matrix in panels for this machine's tiles: [panels][cols][rows of a panel]; the last panel repeats its
/// last row. Products read a panel in order and need not transpose it, which limits the speed with few tokens.
class FloatPanels {
 public:
  /// Copies a matrix of finite values that is stored in rows. Throws std::bad_alloc.
  explicit FloatPanels(const FloatMatrix& rows);

  FloatMatrix matrix() const;

 private:
  FloatMatrix shape_;
  std::shared_ptr<std::byte[]> memory_;
};

/// Decodes row `row` of a matrix to F32. dst is [cols].
void decode_row(const FloatMatrix& matrix, std::size_t row, float* dst);

/// A matrix to multiply with, and where the products are stored: rows `stride` floats apart.
struct FloatOutput {
  const FloatMatrix* matrix = nullptr;
  const float* bias = nullptr;  ///< [rows], or null
  float* dst = nullptr;
  std::size_t stride = 0;
  bool accumulate = false;  ///< adds to dst
};

/// Computes dst[i][r] (+)= bias[r] + sum_c src[i][c] * matrix[r][c] for i < m and every output, with sums in F32. The
/// matrices have the same cols, src is [m][cols] dense, and no dst is a part of it. The result does not depend on the
/// number of threads. ComputeOptions::bf16_products rounds both sides to BF16 and needs multiplies_bf16()
/// (kernels/float_gemm.h).
void matmul(std::span<const FloatOutput> outputs, const float* src, std::size_t m, const ComputeOptions& compute = {});

/// Converts `count` values to F32 and back; to 16 bits, ties round to even. Single-threaded.
void to_float(const void* src, FloatType type, std::size_t count, float* dst);
void from_float(const float* src, std::size_t count, FloatType type, void* dst);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_MATRIX_FLOAT_MATRIX_H_
