#include "quant/rounding/hessian.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "ballast/error.h"
#include "quant/rounding/cholesky.h"
#include "quant/rounding/float_product.h"

namespace ballast::quant {

namespace {

// Only the part of symmetric sums up to the diagonal is computed, in bands of this many rows, or of a fraction of all
// rows if that is more: for each band all columns before its end are decoded.
constexpr std::size_t kBandRows = 256;
constexpr std::size_t kMostBands = 8;

/// What is below the diagonal, above it, too.
void mirror(std::vector<float>& matrix, std::size_t n) {
#pragma omp parallel for schedule(dynamic)
  for (std::size_t c0 = 0; c0 < n; c0 += kTransposedTile) {
    for (std::size_t r0 = c0; r0 < n; r0 += kTransposedTile) {
      for (std::size_t c = c0; c < std::min(n, c0 + kTransposedTile); ++c) {
        for (std::size_t r = std::max(r0, c + 1); r < std::min(n, r0 + kTransposedTile); ++r) {
          matrix[c * n + r] = matrix[r * n + c];
        }
      }
    }
  }
}

/// The upper triangle with rows and columns in reversed order, transposed: it stays an upper triangle.
void reverse_upper(std::vector<float>& matrix, std::size_t n) {
#pragma omp parallel for schedule(dynamic)
  for (std::size_t r0 = 0; r0 < n; r0 += kTransposedTile) {
    for (std::size_t c0 = r0; c0 < n; c0 += kTransposedTile) {
      for (std::size_t r = r0; r < std::min(n, r0 + kTransposedTile); ++r) {
        for (std::size_t c = std::max(c0, r); c < std::min({n, c0 + kTransposedTile, n - 1 - r}); ++c) {
          std::swap(matrix[r * n + c], matrix[(n - 1 - c) * n + (n - 1 - r)]);
        }
      }
    }
  }
}

}  // namespace

void HessianSum::add(const float* inputs, std::size_t rows, std::span<const float> weights) {
  if (rows == 0) return;
  rows_ += rows;
  transpose(inputs, rows, cols_, weights, transposed_);
  const bool in_bf16 = sums_in_bf16(rows);
  const std::span<float> sums = sum_.shard();
  const std::size_t band = std::max(kBandRows, cols_ / kMostBands);
  for (std::size_t first = 0; first < cols_; first += band) {
    const std::size_t end = std::min(cols_, first + band);
    const auto before_end = std::span(transposed_).first(end * rows);
    multiply_transposed(before_end.subspan(first * rows), before_end, rows,
                        {.dst = sums.data() + first * cols_, .stride = cols_, .accumulate = true, .in_bf16 = in_bf16});
  }
}

Hessian HessianSum::finish(Ranks& ranks) {
  Hessian moments{.cols = cols_, .rows = rows_, .values = sum_.finish(ranks)};
  ranks.sum(std::span(&moments.rows, 1));
  mirror(moments.values, cols_);
  transposed_ = {};
  return moments;
}

namespace {

/// Returns the columns in the order of rounding if `cell` neighbours are rounded together. Outlier columns lose
/// nothing, so they come last, where they can correct the error of the others.
std::vector<std::int32_t> rounding_order(const Hessian& moments, std::span<const std::int32_t> outlier_columns,
                                         std::size_t cell) {
  assert(moments.cols % cell == 0);
  std::vector<std::uint8_t> is_outlier(moments.cols);
  for (const std::int32_t column : outlier_columns) is_outlier[static_cast<std::size_t>(column)] = 1;
  std::vector<double> energies(moments.cols / cell);
  for (std::size_t c = 0; c < moments.cols; ++c) energies[c / cell] += double{moments.values[c * moments.cols + c]};
  std::vector<std::size_t> cells(energies.size());
  std::iota(cells.begin(), cells.end(), 0);
  std::ranges::stable_sort(cells, [&](std::size_t a, std::size_t b) {
    const bool a_outlier = is_outlier[a * cell] != 0;
    const bool b_outlier = is_outlier[b * cell] != 0;
    return a_outlier != b_outlier ? b_outlier : energies[a] > energies[b];
  });
  std::vector<std::int32_t> order;
  order.reserve(moments.cols);
  for (const std::size_t index : cells) {
    for (std::size_t i = 0; i < cell; ++i) order.push_back(static_cast<std::int32_t>(index * cell + i));
  }
  return order;
}

/// Mean energy of the first `count` columns of `order`.
double mean_energy(const Hessian& moments, std::span<const std::int32_t> order, std::size_t count) {
  double sum = 0;
  for (const std::int32_t column : order.first(count)) {
    sum += double{moments.values[static_cast<std::size_t>(column) * (moments.cols + 1)]};
  }
  return sum / static_cast<double>(count);
}

/// H, damped by a share of the mean energy of the first `rounded` columns, in reversed order: its Cholesky factor is
/// that of H = U U^T with U upper triangular.
std::vector<float> reversed_moments(const Hessian& moments, std::span<const std::int32_t> order, std::size_t rounded,
                                    double damping) {
  const std::size_t n = moments.cols;
  if (!std::isfinite(mean_energy(moments, order, n))) {
    throw Error("calibration", "the second moments of an input of " + std::to_string(n) + " channels are not finite");
  }
  const double mean = mean_energy(moments, order, rounded);
  const double damp = mean > 0 ? damping * mean : 1.0;
  std::vector<float> reversed(n * n);
#pragma omp parallel for
  for (std::size_t i = 0; i < n; ++i) {
    const auto row = static_cast<std::size_t>(order[n - 1 - i]);
    for (std::size_t j = 0; j < n; ++j) {
      const auto column = static_cast<std::size_t>(order[n - 1 - j]);
      const double value = double{moments.values[row * n + column]} + (i == j ? damp : 0.0);
      reversed[i * n + j] = static_cast<float>(value);
    }
  }
  return reversed;
}

Cholesky factorize_reversed(const Hessian& moments, std::span<const std::int32_t> order, std::size_t rounded,
                            double damping) {
  Cholesky factor(reversed_moments(moments, order, rounded, damping), moments.cols);
  if (!factor.exists()) {
    throw Error("calibration", "the second moments of an input of " + std::to_string(moments.cols) +
                                   " channels cannot be factorized: more damping is needed");
  }
  return factor;
}

}  // namespace

double damping_for(const Hessian& moments) {
  if (moments.rows == 0) return 1;
  return std::clamp(static_cast<double>(moments.cols) / static_cast<double>(moments.rows), kLeastDamping, 1.0);
}

InverseCholesky factorize(const Hessian& moments, std::span<const std::int32_t> outlier_columns, double damping,
                          std::size_t cell) {
  assert(cell == 1 || outlier_columns.empty());
  const std::size_t n = moments.cols;
  InverseCholesky factor;
  factor.cols = n;
  factor.order = rounding_order(moments, outlier_columns, cell);
  factor.cell = cell;
  const std::size_t rounded = outlier_columns.size() < n ? n - outlier_columns.size() : n;
  // R = U^-1, whose transpose in reversed order is the inverse of the factor in reversed order.
  factor.upper = factorize_reversed(moments, factor.order, rounded, damping).inverse_transposed();
  reverse_upper(factor.upper, n);
  factor.importance.resize(n);
  for (std::size_t j = 0; j < n; ++j) {
    const float diagonal = factor.upper[j * n + j];
    factor.importance[static_cast<std::size_t>(factor.order[j])] = 1 / (diagonal * diagonal);
  }
  return factor;
}

std::vector<float> column_importance(const Hessian& moments, double damping) {
  const std::size_t n = moments.cols;
  const std::vector<std::int32_t> order = rounding_order(moments, {}, 1);
  const Cholesky factor = factorize_reversed(moments, order, n, damping);
  std::vector<float> importance(n);
  for (std::size_t j = 0; j < n; ++j) {
    const float diagonal = factor.diagonal()[n - 1 - j];
    importance[static_cast<std::size_t>(order[j])] = diagonal * diagonal;
  }
  return importance;
}

}  // namespace ballast::quant
