#include "quant/passes/rotation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace ballast::quant {

namespace {

/// Rotates `count` values, `stride` apart, in runs of the rotation's order.
void rotate(float* values, std::size_t count, std::size_t stride, const Hadamard& rotation, std::vector<double>& run,
            std::vector<double>& scratch) {
  run.resize(rotation.order());
  for (std::size_t begin = 0; begin < count; begin += run.size()) {
    float* first = values + begin * stride;
    for (std::size_t i = 0; i < run.size(); ++i) run[i] = double{first[i * stride]};
    rotation.apply(run.data(), scratch);
    for (std::size_t i = 0; i < run.size(); ++i) first[i * stride] = static_cast<float>(run[i]);
  }
}

// |sum_i x_i R_ij| <= order * absmax / sqrt(order).
float growth(const Hadamard& rotation) {
  return std::sqrt(static_cast<float>(rotation.order()));
}

model::AxisFolds::Rotation step_of(const Hadamard& rotation) {
  return {.order = rotation.order(), .random_signs = rotation.has_signs()};
}

}  // namespace

void rotate_rows(WorkingLinear& linear, const Hadamard& rotation) {
  linear.absmax *= growth(rotation);
  linear.folds.inputs.add(step_of(rotation));
  linear.change([rows = linear.rows, cols = linear.cols, rotation](float* values) {
#pragma omp parallel
    {
      std::vector<double> run;
      std::vector<double> scratch;
#pragma omp for
      for (std::size_t r = 0; r < rows; ++r) rotate(values + r * cols, cols, 1, rotation, run, scratch);
    }
  });
}

void rotate_columns(WorkingLinear& linear, const Hadamard& rotation) {
  linear.absmax *= growth(rotation);
  linear.folds.outputs.add(step_of(rotation));
  std::vector<double> bias_run;
  std::vector<double> bias_scratch;
  if (!linear.bias.empty()) rotate(linear.bias.data(), linear.rows, 1, rotation, bias_run, bias_scratch);
  linear.change([rows = linear.rows, cols = linear.cols, rotation](float* values) {
#pragma omp parallel
    {
      std::vector<double> run;
      std::vector<double> scratch;
#pragma omp for
      for (std::size_t c = 0; c < cols; ++c) rotate(values + c, rows, cols, rotation, run, scratch);
    }
  });
}

void rotate_channels(ChannelStatistics& channels, const Hadamard& rotation) {
  const std::size_t order = rotation.order();
  std::vector<double> scratch;
  std::vector<double> mean(order);
  std::vector<double> middle(order);
  for (std::size_t begin = 0; begin < channels.mean.size(); begin += order) {
    double variance = 0;
    double width = 0;
    double ordinary = 0;
    for (std::size_t i = 0; i < order; ++i) {
      const std::size_t c = begin + i;
      mean[i] = channels.mean[c];
      middle[i] = 0.5 * (double{channels.min[c]} + double{channels.max[c]});
      const double half = 0.5 * (double{channels.max[c]} - double{channels.min[c]});
      variance += std::max(0.0, double{channels.mean_square[c]} - mean[i] * mean[i]);
      width += half * half;
      if (!channels.ordinary_absmax.empty()) ordinary += std::pow(double{channels.ordinary_absmax[c]}, 2);
    }
    const double size = static_cast<double>(order);
    rotation.apply(mean.data(), scratch);
    rotation.apply(middle.data(), scratch);
    for (std::size_t i = 0; i < order; ++i) {
      const std::size_t c = begin + i;
      channels.mean[c] = static_cast<float>(mean[i]);
      channels.mean_square[c] = static_cast<float>(variance / size + mean[i] * mean[i]);
      channels.min[c] = static_cast<float>(middle[i] - std::sqrt(width / size));
      channels.max[c] = static_cast<float>(middle[i] + std::sqrt(width / size));
      if (!channels.ordinary_absmax.empty()) {
        channels.ordinary_absmax[c] = static_cast<float>(std::sqrt(ordinary / size));
      }
    }
  }
}

}  // namespace ballast::quant
