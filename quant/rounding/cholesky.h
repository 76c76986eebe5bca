// Triangular factors of large symmetric matrices.
#ifndef BALLAST_QUANT_ROUNDING_CHOLESKY_H_
#define BALLAST_QUANT_ROUNDING_CHOLESKY_H_

#include <cstddef>
#include <span>
#include <vector>

namespace ballast::quant {

/// Factorizes matrix = L L^T with L lower triangular, in tiles: LAPACK factorizes those on the diagonal in F64, on one
/// thread, and everything else is products in F32. The errors are proportional to the diagonal's entries, of any size,
/// and far below the damping of GPTQ's moments. The result does not depend on the number of threads.
class Cholesky {
 public:
  /// Factorizes a symmetric matrix [n][n]; only its lower triangle is read.
  Cholesky(std::vector<float> matrix, std::size_t n);

  /// False when the matrix is not positive definite; nothing else can be asked then.
  bool exists() const { return exists_; }

  /// Returns the diagonal of L.
  std::span<const float> diagonal() const { return diagonal_; }

  /// L^-1, transposed: upper triangular, row by row, and below its diagonal arbitrary.
  std::vector<float> inverse_transposed() &&;

 private:
  std::size_t tiles() const;
  std::size_t size(std::size_t tile) const;
  float* at(std::size_t row_tile, std::size_t column_tile);
  bool factorize_diagonal(std::size_t tile);
  void update_rest(std::size_t tile);

  std::vector<float> matrix_;
  std::size_t n_;
  bool exists_ = true;
  std::vector<float> diagonal_;
  std::vector<std::vector<float>> inverses_;  ///< of the tiles on the diagonal
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_CHOLESKY_H_
