// Matrices of low rank, which adapters add to large ones: y += up (down x).
#ifndef BALLAST_KERNELS_MATRIX_LOW_RANK_H_
#define BALLAST_KERNELS_MATRIX_LOW_RANK_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "kernels/matrix/float_matrix.h"
#include "kernels/scratch.h"

namespace ballast::kernels {

/// The product of two narrow matrices, in F32 or BF16. Immutable.
class LowRankMatrix {
 public:
  /// Copies up [rows][rank] and down [rank][cols]. Precondition: `type` is kF32 or kBF16.
  LowRankMatrix(FloatType type, std::size_t rows, std::size_t cols, std::size_t rank, const float* up,
                const float* down);

  FloatType type() const { return type_; }
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  std::size_t rank() const { return rank_; }
  std::size_t padded_rank() const;

  // Padded with zeros, in blocks of 32 values, in the order in which products read them:
  const std::byte* down() const { return down_.get(); }  ///< [padded_rank() / 4][blocks of cols][4][32]
  const std::byte* up() const { return up_.get(); }      ///< [blocks of rows][rank][32]

 private:
  FloatType type_;
  std::size_t rows_;
  std::size_t cols_;
  std::size_t rank_;
  std::shared_ptr<std::byte[]> down_, up_;
};

/// What is added to some rows of a product.
struct LowRankProduct {
  const LowRankMatrix* matrix = nullptr;
  const float* bias = nullptr;               ///< [rows()] that are added, too; or null
  std::span<const std::size_t> row_indices;  ///< of src and dst
  float* dst = nullptr;
  std::size_t stride = 0;  ///< from row to row of dst
};

/// Memory of add_low_rank, reused from call to call.
struct LowRankScratch {
  AlignedArray<float> inner;           ///< down x of all products
  std::vector<std::size_t> task_ends;  ///< of each product's tasks
};

/// Computes dst[i] += bias + up (down src[i]) for the rows i of each product, with sums in F32. src is dense, its rows
/// have the cols() that all matrices share, and no dst is a part of it. A row's result is the same bits with any others
/// and any number of threads.
void add_low_rank(std::span<const LowRankProduct> products, const float* src, LowRankScratch& scratch);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_MATRIX_LOW_RANK_H_
