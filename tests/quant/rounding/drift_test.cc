#include "quant/rounding/drift.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace ballast::quant {
namespace {

constexpr std::size_t kDriftTokens = 90;
constexpr std::size_t kFirstBatch = 33;
constexpr double kDamping = 0.05;

std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

Drift drift_of(Drift::Of of, std::size_t size, std::size_t cols, const std::vector<float>& original,
               const std::vector<float>& rounded, const std::vector<float>& inputs, const std::vector<float>& weights) {
  DriftSum sum(of, size, cols, jobs::SumOrder::kAny);
  const std::span all(weights);
  sum.add(original.data(), rounded.data(), inputs.data(), kFirstBatch, all.first(kFirstBatch));
  sum.add(original.data() + kFirstBatch * size, rounded.data() + kFirstBatch * size, inputs.data() + kFirstBatch * cols,
          kDriftTokens - kFirstBatch, all.subspan(kFirstBatch));
  sum.end_shard(0);
  return sum.finish(single_rank());
}

/// x with x matrix = row, by Gaussian elimination; `matrix` [n][n] is symmetric and positive.
std::vector<double> solved(std::vector<double> matrix, std::vector<double> row) {
  const std::size_t n = row.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      const double factor = matrix[j * n + i] / matrix[i * n + i];
      for (std::size_t k = i; k < n; ++k) matrix[j * n + k] -= factor * matrix[i * n + k];
      row[j] -= factor * row[i];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) row[i] -= matrix[i * n + k] * row[k];
    row[i] /= matrix[i * n + i];
  }
  return row;
}

TEST_CASE("drift is the sum of differences times what is read, tokens weighted twice as in the Hessian") {
  constexpr std::size_t kRows = 5;
  constexpr std::size_t kCols = 7;
  const std::vector<float> weights = random_values(kDriftTokens, 1);
  const std::vector<float> inputs = random_values(kDriftTokens * kCols, 2);
  for (const Drift::Of of : {Drift::Of::kInput, Drift::Of::kStream}) {
    const bool of_input = of == Drift::Of::kInput;
    const std::size_t size = of_input ? kCols : kRows;
    const std::vector<float> original = random_values(kDriftTokens * size, 3);
    const std::vector<float> rounded = of_input ? inputs : random_values(kDriftTokens * size, 4);
    const Drift drift = drift_of(of, size, kCols, original, rounded, inputs, weights);
    REQUIRE(drift.values.size() == size * kCols);
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t c = 0; c < kCols; ++c) {
        double expected = 0;
        for (std::size_t t = 0; t < kDriftTokens; ++t) {
          expected += double{weights[t]} * double{weights[t]} * double{inputs[t * kCols + c]} *
                      (double{original[t * size + i]} - double{rounded[t * size + i]});
        }
        CHECK(drift.values[of_input ? c * kCols + i : i * kCols + c] == doctest::Approx(expected).epsilon(1e-3));
      }
    }
  }
}

TEST_CASE("weights are corrected by half of what least squares would change") {
  // The second has several bands.
  for (const std::size_t cols : {std::size_t{24}, std::size_t{300}}) {
    CAPTURE(cols);
    constexpr std::size_t kRows = 6;
    constexpr std::size_t kFirstRow = 2;  // of those corrected
    std::vector<float> inputs = random_values(kDriftTokens * cols, 5);
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] *= 1 + static_cast<float>(i % cols % 5);
    HessianSum sum(cols, jobs::SumOrder::kAny);
    sum.add(inputs.data(), kDriftTokens);
    sum.end_shard(0);
    const Hessian moments = sum.finish(single_rank());
    const InverseCholesky factor = factorize(moments, {}, kDamping);
    std::vector<double> damped(moments.values.begin(), moments.values.end());
    double mean = 0;
    for (std::size_t c = 0; c < cols; ++c) mean += damped[c * cols + c] / static_cast<double>(cols);
    for (std::size_t c = 0; c < cols; ++c) damped[c * cols + c] += kDamping * mean;

    const std::vector<float> weights = random_values(kRows * cols, 6);
    for (const Drift::Of of : {Drift::Of::kInput, Drift::Of::kStream}) {
      const bool of_input = of == Drift::Of::kInput;
      const Drift drift{of, random_values((of_input ? cols : kRows) * cols, 7)};
      std::vector<float> corrected((kRows - kFirstRow) * cols);
      for (std::size_t i = 0; i < corrected.size(); ++i) {
        corrected[i] = weights[(i / cols + kFirstRow) * cols + static_cast<std::size_t>(factor.order[i % cols])];
      }
      correct_drift(drift, factor, kFirstRow, corrected);

      for (std::size_t r = kFirstRow; r < kRows; ++r) {
        std::vector<double> lacking(cols);
        for (std::size_t c = 0; c < cols; ++c) {
          if (!of_input) lacking[c] = double{drift.values[r * cols + c]};
          for (std::size_t k = 0; of_input && k < cols; ++k) {
            lacking[c] += double{weights[r * cols + k]} * double{drift.values[c * cols + k]};
          }
        }
        const std::vector<double> change = solved(damped, lacking);
        double scale = 0;
        for (const double value : change) scale = std::max(scale, std::abs(value));
        for (std::size_t j = 0; j < cols; ++j) {
          const auto c = static_cast<std::size_t>(factor.order[j]);
          const double expected = double{weights[r * cols + c]} + 0.5 * change[c];
          CHECK(double{corrected[(r - kFirstRow) * cols + j]} == doctest::Approx(expected).epsilon(1e-3).scale(scale));
        }
      }
    }
  }
}

}  // namespace
}  // namespace ballast::quant
