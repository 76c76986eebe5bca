// Products of activations, F32 or quantized to INT8, with INT8/INT4 weights repacked for this machine.
#ifndef BALLAST_KERNELS_QUANTIZED_MATRIX_H_
#define BALLAST_KERNELS_QUANTIZED_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ballast/quantized.h"

namespace ballast::kernels {

/// How activations are quantized: symmetric INT8 in [-127, 127], one scale per token or per token and group.
struct ActivationFormat {
  std::size_t cols = 0;
  std::size_t group_size = 0;                 ///< the groups of the weights that they meet
  bool scale_per_group = false;               ///< else one scale per token
  std::vector<std::int32_t> outlier_columns;  ///< left out of scale and codes, kept in F32

  bool operator==(const ActivationFormat&) const = default;
};

/// Activations of `m` tokens, quantized. Reused from call to call: `quantize` allocates only to grow.
class Int8Activations {
 public:
  Int8Activations();
  ~Int8Activations();
  Int8Activations(Int8Activations&&) noexcept;
  Int8Activations& operator=(Int8Activations&&) noexcept;

  /// Quantizes src [m][format.cols] (dense, F32). Ties round to even; an all-zero token or group gets scale 0.
  void quantize(const float* src, std::size_t m, const ActivationFormat& format);

  struct Storage;
  const Storage& storage() const { return *storage_; }

 private:
  std::unique_ptr<Storage> storage_;
};

/// Owner of a quantized matrix in the layout of the machine's kernels. Immutable once built.
class QuantizedMatrix {
 public:
  /// Repacks on all threads. The view's memory is not needed afterwards. Preconditions (checked by the loader): sizes
  /// agree, scales are finite, outlier columns ascend and lie in range.
  explicit QuantizedMatrix(const QuantizedView& view);
  ~QuantizedMatrix();
  QuantizedMatrix(QuantizedMatrix&&) noexcept;
  QuantizedMatrix& operator=(QuantizedMatrix&&) noexcept;

  std::size_t rows() const;
  std::size_t cols() const;
  std::size_t group_size() const;
  std::span<const std::int32_t> outlier_columns() const;
  std::size_t bytes() const;  ///< memory held; what one token's product streams

  /// dst[i][r] = bias[r] + sum_c src[i][c] * w[r][c], with F32 activations (A16 schemes). src dense, as float matmul's.
  void matmul(const float* src, std::size_t m, const float* bias, float* dst, std::size_t dst_stride) const;

  /// The same with INT8 activations (A8 schemes), whose format must have this matrix's cols, group_size and
  /// outlier_columns. Codes multiply in INT32 within a group; groups and outlier columns are summed in F32.
  void matmul(const Int8Activations& src, std::size_t m, const float* bias, float* dst, std::size_t dst_stride) const;

  /// Row `row` in F32, outlier columns included, for embedding look-ups. dst is [cols].
  void decode_row(std::size_t row, float* dst) const;

  struct Storage;

 private:
  std::unique_ptr<Storage> storage_;
};

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_QUANTIZED_MATRIX_H_
