#include "quant/rounding/lapack.h"

#include <cassert>
#include <limits>

extern "C" {
void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info);
void dtrtri_(const char* uplo, const char* diag, const int* n, double* a, const int* lda, int* info);
}

namespace ballast::quant {

bool invert_cholesky(std::vector<double>& matrix, std::size_t n) {
  assert(matrix.size() == n * n && n <= static_cast<std::size_t>(std::numeric_limits<int>::max()));
  // LAPACK counts columns first: its upper triangle U of matrix = U^T U is L row by row.
  const int order = static_cast<int>(n);
  int info = 0;
  dpotrf_("U", &order, matrix.data(), &order, &info);
  if (info == 0) dtrtri_("U", "N", &order, matrix.data(), &order, &info);
  return info == 0;
}

}  // namespace ballast::quant
