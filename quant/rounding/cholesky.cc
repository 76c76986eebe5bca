#include "quant/rounding/cholesky.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "quant/rounding/float_product.h"

extern "C" {
void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info);
void dtrtri_(const char* uplo, const char* diag, const int* n, double* a, const int* lda, int* info);
}

namespace ballast::quant {

namespace {

// Large enough for fast products, small enough that LAPACK's share is small.
constexpr std::size_t kTileSize = 384;

/// Returns a copy [rows][cols] of a part of a matrix whose rows are `stride` apart, with each value multiplied by
/// `factor`.
std::vector<float> copy_of(const float* part, std::size_t rows, std::size_t cols, std::size_t stride,
                           float factor = 1) {
  std::vector<float> copy(rows * cols);
#pragma omp parallel for
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < cols; ++c) copy[r * cols + c] = factor * part[r * stride + c];
  }
  return copy;
}

}  // namespace

Cholesky::Cholesky(std::vector<float> matrix, std::size_t n) : matrix_(std::move(matrix)), n_(n) {
  assert(matrix_.size() == n * n);
  for (std::size_t tile = 0; tile < tiles() && exists_; ++tile) {
    exists_ = factorize_diagonal(tile);
    if (exists_) update_rest(tile);
  }
}

std::size_t Cholesky::tiles() const {
  return (n_ + kTileSize - 1) / kTileSize;
}

std::size_t Cholesky::size(std::size_t tile) const {
  return std::min(kTileSize, n_ - tile * kTileSize);
}

float* Cholesky::at(std::size_t row_tile, std::size_t column_tile) {
  return matrix_.data() + row_tile * kTileSize * n_ + column_tile * kTileSize;
}

bool Cholesky::factorize_diagonal(std::size_t tile) {
  const std::size_t size = this->size(tile);
  std::vector<double> values(size * size);
  for (std::size_t r = 0; r < size; ++r) {
    for (std::size_t c = 0; c <= r; ++c) values[r * size + c] = double{at(tile, tile)[r * n_ + c]};
  }
  // LAPACK counts columns first: its upper triangle U of U^T U is L row by row.
  const int order = static_cast<int>(size);
  int info = 0;
  dpotrf_("U", &order, values.data(), &order, &info);
  if (info != 0) return false;
  for (std::size_t r = 0; r < size; ++r) diagonal_.push_back(static_cast<float>(values[r * size + r]));
  dtrtri_("U", "N", &order, values.data(), &order, &info);
  if (info != 0) return false;
  std::vector<float> inverse(size * size);
  for (std::size_t r = 0; r < size; ++r) {
    for (std::size_t c = 0; c <= r; ++c) inverse[r * size + c] = static_cast<float>(values[r * size + c]);
  }
  inverses_.push_back(std::move(inverse));
  return true;
}

void Cholesky::update_rest(std::size_t tile) {
  const std::size_t cols = size(tile);
  const std::size_t first = (tile + 1) * kTileSize;
  if (first >= n_) return;
  multiply_transposed(copy_of(at(tile + 1, tile), n_ - first, cols, n_), inverses_[tile], cols,
                      {.dst = at(tile + 1, tile), .stride = n_});
  const std::vector<float> panel = copy_of(at(tile + 1, tile), n_ - first, cols, n_);
  for (std::size_t column = tile + 1; column < tiles(); ++column) {
    const std::size_t before = (column - tile - 1) * kTileSize * cols;
    const std::vector<float> right = copy_of(panel.data() + before, size(column), cols, cols, -1);
    multiply_transposed(std::span(panel).subspan(before), right, cols,
                        {.dst = at(column, column), .stride = n_, .accumulate = true});
  }
}

std::vector<float> Cholesky::inverse_transposed() && {
  // Y = L^-T is stored above the diagonal, where L^T is not needed: from L Y^T = 1, tile (j, i) of Y is -(sum over k
  // from j to before i of Y[j][k] L[i][k]^T) L[i][i]^-T.
  for (std::size_t i = 0; i < tiles(); ++i) {
    for (std::size_t r = 0; r < size(i); ++r) {
      for (std::size_t c = r; c < size(i); ++c) at(i, i)[r * n_ + c] = inverses_[i][c * size(i) + r];
      for (std::size_t c = 0; c < r; ++c) at(i, i)[r * n_ + c] = 0;
    }
    const std::vector<float> last = copy_of(inverses_[i].data(), size(i), size(i), size(i), -1);
    for (std::size_t j = 0; j < i; ++j) {
      const std::size_t cols = (i - j) * kTileSize;
      std::vector<float> sum(size(j) * size(i));
      multiply_transposed(copy_of(at(j, j), size(j), cols, n_), copy_of(at(i, j), size(i), cols, n_), cols,
                          {.dst = sum.data(), .stride = size(i)});
      multiply_transposed(sum, last, size(i), {.dst = at(j, i), .stride = n_});
    }
  }
  return std::move(matrix_);
}

}  // namespace ballast::quant
