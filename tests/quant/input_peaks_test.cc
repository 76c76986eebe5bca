#include "quant/rounding/input_peaks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "quant/search/output_error.h"

namespace ballast::quant {
namespace {

InputPeaks peaks_of(const std::vector<float>& inputs, std::size_t cols, std::span<const float> weights = {}) {
  PeakSum sum(cols, jobs::SumOrder::kAny);
  const std::size_t rows = inputs.size() / cols;
  const std::size_t first = rows / 3;  // in two unequal batches
  sum.add(inputs.data(), first, weights.empty() ? weights : weights.first(first));
  sum.add(inputs.data() + first * cols, rows - first, weights.empty() ? weights : weights.subspan(first));
  sum.end_shard(0);
  return sum.finish(single_rank());
}

TEST_CASE("peaks are the largest squares of each token's groups, short ones too") {
  std::vector<float> inputs(160, 0.5F);
  inputs[3] = -4;        // first token, first group
  inputs[40] = 2;        // its second group
  inputs[79] = 3;        // its last, of 16 channels
  inputs[80 + 33] = -6;  // second token
  const InputPeaks peaks = peaks_of(inputs, 80);
  CHECK(peaks.of_group_size(32) == std::vector<float>{16.25F, 40, 9.25F});
  CHECK(peaks.of_group_size(64) == std::vector<float>{16 + 36, 9.25F});
  CHECK(peaks.of_group_size(128) == std::vector<float>{16 + 36});
  CHECK(peaks.excess[3] == doctest::Approx(16 - 0.25));
  CHECK(peaks.excess[33] == doctest::Approx(36 - 0.25));
  CHECK(peaks.excess[79] == doctest::Approx(9 - 0.25));

  const std::vector<float> weights = {0.5F, 2};
  CHECK(peaks_of(inputs, 80, weights).of_group_size(128) == std::vector<float>{16 * 0.25F + 36 * 4});
}

TEST_CASE("two channels that are large in the same tokens share the gain of leaving out both") {
  std::vector<float> inputs(32, 1.0F);
  inputs[5] = 10;
  inputs[9] = 9;
  const InputPeaks peaks = peaks_of(inputs, 32);
  CHECK(peaks.excess[5] == doctest::Approx((100 - 1) / 2.0));
  CHECK(peaks.excess[9] == doctest::Approx((100 - 1) / 2.0));
  CHECK(peaks.excess[0] == 0);
}

TEST_CASE("the expected error of INT8 inputs is that of the outputs, with or without outlier columns") {
  constexpr std::size_t kTokenCount = 300;
  constexpr std::size_t kRows = 24;
  constexpr std::size_t kCols = 96;
  std::mt19937_64 engine(4);
  std::normal_distribution<float> normal;
  WorkingLinear linear;
  linear.rows = kRows;
  linear.cols = kCols;
  linear.values.resize(kRows * kCols);
  for (float& value : linear.values) value = normal(engine);
  std::vector<float> inputs(kTokenCount * kCols);
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = normal(engine) * (i % kCols == 40 ? 25.0F : 1.0F);

  const InputPeaks peaks = peaks_of(inputs, kCols);
  const ActivationErrors errors(linear, peaks);
  const std::vector<float> gains = errors.gains();
  for (const std::size_t group_size : {std::size_t{32}, std::size_t{64}}) {
    for (const bool leave_out : {false, true}) {
      CAPTURE(group_size);
      CAPTURE(leave_out);
      double measured = 0;
      for (std::size_t t = 0; t < kTokenCount; ++t) {
        std::vector<double> difference(kCols);
        for (std::size_t begin = 0; begin < kCols; begin += group_size) {
          const std::size_t end = std::min(kCols, begin + group_size);
          double largest = 0;
          for (std::size_t c = begin; c < end; ++c) {
            if (!leave_out || c != 40) largest = std::max(largest, std::abs(double{inputs[t * kCols + c]}));
          }
          for (std::size_t c = begin; c < end; ++c) {
            const double steps = double{inputs[t * kCols + c]} / (largest / 127);
            if (!leave_out || c != 40) difference[c] = (std::nearbyint(steps) - steps) * largest / 127;
          }
        }
        for (std::size_t r = 0; r < kRows; ++r) {
          double output = 0;
          for (std::size_t c = 0; c < kCols; ++c) output += difference[c] * double{linear.values[r * kCols + c]};
          measured += output * output;
        }
      }
      const double expected = errors.total(group_size) - (leave_out ? double{gains[40]} : 0);
      if (leave_out && group_size == 64) continue;  // the gain of leaving out a column is known for groups of 32
      CHECK(expected > 0.8 * measured);
      CHECK(expected < 1.25 * measured);
    }
  }
}

}  // namespace
}  // namespace ballast::quant
