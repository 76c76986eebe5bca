#include "quant/passes/fold_arithmetic.h"

#include <algorithm>
#include <cmath>

namespace ballast::quant {

void scale_columns(WorkingLinear& linear, std::span<const float> factors) {
  float largest = 0;
  for (const float value : factors) largest = std::max(largest, std::abs(value));
  linear.absmax *= largest;
  linear.folds.inputs.scale(factors);
  linear.change([rows = linear.rows, own = std::vector<float>(factors.begin(), factors.end())](float* values) {
    const std::size_t cols = own.size();
#pragma omp parallel for
    for (std::size_t r = 0; r < rows; ++r) {
      float* row = values + r * cols;
      for (std::size_t c = 0; c < cols; ++c) row[c] = static_cast<float>(double{row[c]} * double{own[c]});
    }
  });
}

void scale_rows(WorkingLinear& linear, std::span<const float> factors) {
  for (std::size_t r = 0; r < linear.bias.size(); ++r) linear.bias[r] *= factors[r];
  linear.folds.outputs.scale(factors);
  linear.change([cols = linear.cols, own = std::vector<float>(factors.begin(), factors.end())](float* values) {
#pragma omp parallel for
    for (std::size_t r = 0; r < own.size(); ++r) {
      float* row = values + r * cols;
      for (std::size_t c = 0; c < cols; ++c) row[c] *= own[r];
    }
  });
}

std::vector<double> product(const WorkingLinear& linear, std::span<const float> input) {
  std::vector<double> output(linear.rows, 0.0);
  if (!linear.has_values()) return output;
  const LinearValues values(linear);
#pragma omp parallel for
  for (std::size_t r = 0; r < linear.rows; ++r) {
    const float* row = values.data() + r * linear.cols;
    double sum = 0;
    for (std::size_t c = 0; c < linear.cols; ++c) sum += double{row[c]} * double{input[c]};
    output[r] = sum;
  }
  return output;
}

void add_to_bias(std::vector<float>& bias, std::span<const double> addend) {
  bias.resize(addend.size(), 0.0F);
  for (std::size_t r = 0; r < bias.size(); ++r) bias[r] = static_cast<float>(double{bias[r]} + addend[r]);
}

void add_constant_input(WorkingLinear& linear, std::span<const float> input) {
  add_to_bias(linear.bias, product(linear, input));
  linear.folds.add_constant_input(input);
}

std::vector<float> repeat_for_heads(std::span<const float> values, const HeadSharing& heads) {
  std::vector<float> repeated;
  repeated.reserve(values.size() * heads.sharing);
  for (std::size_t first = 0; first < values.size(); first += heads.size) {
    const auto channels = values.subspan(first, heads.size);
    for (std::size_t i = 0; i < heads.sharing; ++i) {
      repeated.insert(repeated.end(), channels.begin(), channels.end());
    }
  }
  return repeated;
}

void scale_channels(ChannelStatistics& channels, std::span<const float> factors) {
  for (std::size_t c = 0; c < factors.size(); ++c) {
    const float factor = factors[c];
    channels.min[c] *= factor;
    channels.max[c] *= factor;
    if (factor < 0) std::swap(channels.min[c], channels.max[c]);
    channels.mean[c] *= factor;
    channels.mean_square[c] *= factor * factor;
    if (!channels.ordinary_absmax.empty()) channels.ordinary_absmax[c] *= std::abs(factor);
  }
}

void shift_channels(ChannelStatistics& channels, std::span<const float> shift) {
  for (std::size_t c = 0; c < shift.size(); ++c) {
    const double b = shift[c];
    const double mean = channels.mean[c];
    const double mean_square = channels.mean_square[c] - 2 * b * mean + b * b;
    channels.min[c] -= shift[c];
    channels.max[c] -= shift[c];
    channels.mean[c] = static_cast<float>(mean - b);
    channels.mean_square[c] = static_cast<float>(std::max(mean_square, (mean - b) * (mean - b)));
    if (channels.ordinary_absmax.empty()) continue;
    // The sign of the ordinary tokens' extreme is not recorded, so the tighter of two bounds is used.
    channels.ordinary_absmax[c] = std::min(channels.ordinary_absmax[c] + std::abs(shift[c]), channels.absmax(c));
  }
}

}  // namespace ballast::quant
