// Products in which every head has its own matrix for its part of a row, as before and after attention over latent
// vectors.
#ifndef BALLAST_KERNELS_MATRIX_HEAD_MATRICES_H_
#define BALLAST_KERNELS_MATRIX_HEAD_MATRICES_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/matrix/float_matrix.h"

namespace ballast::kernels {

/// The parts of the heads in rows of floats: head h of row i starts at data[i * stride + h * head_stride].
template <class T>
struct HeadRows {
  T* data = nullptr;
  std::size_t stride = 0;
  std::size_t head_stride = 0;
};

/// One matrix per head, all of the same shape, in panels for this machine's tiles, so that each is read once and in
/// order. Immutable once built.
class HeadMatrices {
 public:
  /// What a row of the stored matrices contains: the weights of one output, or the weights of one input (the stored
  /// matrix is the transpose).
  enum class Rows { kOutputs, kInputs };

  struct Shape {
    std::size_t heads = 0;
    std::size_t inputs = 0;   ///< of a head
    std::size_t outputs = 0;  ///< of a head
    Rows rows = Rows::kOutputs;
  };

  /// How values are stored: rounded to the type, ties to even. With `scaled`, the values of each head are first
  /// multiplied by a power of two that brings the largest close to F16's maximum, so that small ones keep their digits.
  struct Format {
    FloatType type = FloatType::kF32;
    bool scaled = false;
  };

  /// decode(row, dst) writes a row of the stored matrices, which are concatenated by rows, in F32. Called from several
  /// threads. Throws std::bad_alloc.
  HeadMatrices(const Shape& shape, const Format& format,
               const std::function<void(std::size_t row, float* dst)>& decode);

  const Shape& shape() const { return shape_; }

  /// Computes dst[i][h][o] = bias[h][o] + sum over c of src[i][h][c] * W_h[o][c], for i < m, with sums in F32 in the
  /// order of c. `bias` is dense, or null; src and dst do not overlap. The result for a row depends neither on the
  /// other rows nor on the number of threads.
  void multiply(const HeadRows<const float>& src, std::size_t m, const float* bias, const HeadRows<float>& dst) const;

  struct View;

 private:
  std::size_t panels() const;
  void pack(std::size_t head, const std::function<void(std::size_t row, float* dst)>& decode);

  Shape shape_;
  Format format_;
  std::size_t width_;                    ///< outputs of a panel
  std::vector<float> factors_;           ///< of each head's products
  std::shared_ptr<std::byte[]> memory_;  ///< [heads][panels][inputs][width]
};

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_MATRIX_HEAD_MATRICES_H_
