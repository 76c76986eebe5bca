// The one thing that comes from LAPACK.
#ifndef BALLAST_QUANT_ROUNDING_LAPACK_H_
#define BALLAST_QUANT_ROUNDING_LAPACK_H_

#include <cstddef>
#include <vector>

namespace ballast::quant {

/// matrix [n][n], symmetric, becomes L^-1 (lower triangular, row-major; what stands above the diagonal is arbitrary)
/// with matrix = L L^T. False when the matrix is not positive definite. On one thread, so that the result does not
/// depend on their number.
bool invert_cholesky(std::vector<double>& matrix, std::size_t n);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_LAPACK_H_
