#include "quant/rounding/drift.h"

#include <algorithm>

#include "quant/rounding/float_product.h"

namespace ballast::quant {

namespace {

// The share of the least squares correction that is applied. All of it would fit noise of the samples: SmolLM2-135M's
// first 12 blocks in 4 bits lose 0.0423 without correction, 0.0297 with a half, 0.0391 with the whole (docs/method.md).
constexpr float kCorrectedShare = 0.5F;

// Products with a triangle are made in bands, or in parts of all where those are more.
constexpr std::size_t kTriangleBand = 256;
constexpr std::size_t kMostTriangleBands = 8;

/// [rows][n] *= H^-1 = R^T R, columns in the factor's order.
void multiply_by_inverse(const InverseCholesky& factor, std::vector<float>& values) {
  const std::size_t n = factor.cols;
  const std::size_t rows = values.size() / n;
  const std::size_t band = std::max(kTriangleBand, n / kMostTriangleBands);
  std::vector<float> product(values.size());
  std::vector<float> left;
  std::vector<float> right;
  // Columns begin ... end - 1 of all rows.
  const auto copy_columns = [&](const std::vector<float>& from, std::size_t begin, std::size_t end) {
    left.resize(rows * (end - begin));
#pragma omp parallel for
    for (std::size_t r = 0; r < rows; ++r) {
      std::copy_n(from.data() + r * n + begin, end - begin, left.data() + r * (end - begin));
    }
  };
  for (std::size_t begin = 0; begin < n; begin += band) {
    const std::size_t end = std::min(n, begin + band);
    const std::size_t depth = n - begin;
    copy_columns(values, begin, n);
    right.resize((end - begin) * depth);
#pragma omp parallel for
    for (std::size_t j = begin; j < end; ++j) {
      float* row = right.data() + (j - begin) * depth;
      std::fill_n(row, j - begin, 0.0F);
      std::copy_n(factor.upper.data() + j * n + j, n - j, row + (j - begin));
    }
    multiply_transposed(left, right, depth, {.dst = product.data() + begin, .stride = n});
  }
  for (std::size_t begin = 0; begin < n; begin += band) {
    const std::size_t end = std::min(n, begin + band);
    copy_columns(product, 0, end);
    right.resize((end - begin) * end);
#pragma omp parallel for
    for (std::size_t j0 = begin; j0 < end; j0 += kTransposedTile) {
      for (std::size_t k = 0; k < end; ++k) {
        for (std::size_t j = j0; j < std::min(end, j0 + kTransposedTile); ++j) {
          right[(j - begin) * end + k] = k <= j ? factor.upper[k * n + j] : 0.0F;
        }
      }
    }
    multiply_transposed(left, right, end, {.dst = values.data() + begin, .stride = n});
  }
}

/// Returns the missing part of the rows' outputs times their inputs: [rows][n], columns in the factor's order.
std::vector<float> lacking(const Drift& drift, const InverseCholesky& factor, std::size_t first_row,
                           std::span<const float> weights) {
  const std::size_t n = factor.cols;
  const std::size_t rows = weights.size() / n;
  std::vector<float> result(rows * n);
  if (drift.of == Drift::Of::kStream) {
#pragma omp parallel for
    for (std::size_t r = 0; r < rows; ++r) {
      const float* row = drift.values.data() + (first_row + r) * n;
      for (std::size_t j = 0; j < n; ++j) result[r * n + j] = row[factor.order[j]];
    }
    return result;
  }
  std::vector<float> ordered(n * n);
#pragma omp parallel for
  for (std::size_t i = 0; i < n; ++i) {
    const float* row = drift.values.data() + static_cast<std::size_t>(factor.order[i]) * n;
    for (std::size_t j = 0; j < n; ++j) ordered[i * n + j] = row[factor.order[j]];
  }
  multiply_transposed(weights, ordered, n, {.dst = result.data(), .stride = n});
  return result;
}

}  // namespace

void DriftSum::add(const float* original, const float* rounded, const float* inputs, std::size_t tokens,
                   std::span<const float> weights) {
  if (tokens == 0) return;
  differences_.resize(tokens * size_);
#pragma omp parallel for
  for (std::size_t i = 0; i < differences_.size(); ++i) differences_[i] = original[i] - rounded[i];
  transpose(differences_.data(), tokens, size_, weights, transposed_differences_);
  transpose(inputs, tokens, cols_, weights, transposed_inputs_);
  const bool of_input = of_ == Drift::Of::kInput;
  multiply_transposed(of_input ? transposed_inputs_ : transposed_differences_,
                      of_input ? transposed_differences_ : transposed_inputs_, tokens,
                      {.dst = sum_.shard().data(),
                       .stride = of_input ? size_ : cols_,
                       .accumulate = true,
                       .in_bf16 = sums_in_bf16(tokens)});
}

void correct_drift(const Drift& drift, const InverseCholesky& factor, std::size_t first_row, std::span<float> weights) {
  std::vector<float> change = lacking(drift, factor, first_row, weights);
  multiply_by_inverse(factor, change);
#pragma omp parallel for
  for (std::size_t i = 0; i < change.size(); ++i) weights[i] += kCorrectedShare * change[i];
}

}  // namespace ballast::quant
