#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "quant/fold_arithmetic.h"
#include "quant/fold_rules.h"
#include "quant/passes.h"

namespace ballast::quant {

namespace {

using model::Role;

/// The Hadamard matrix over sqrt(count), symmetric and its own inverse, on count values (a power of two).
void hadamard(double* values, std::size_t count) {
  for (std::size_t half = 1; half < count; half *= 2) {
    for (std::size_t block = 0; block < count; block += 2 * half) {
      for (std::size_t i = block; i < block + half; ++i) {
        const double sum = values[i] + values[i + half];
        values[i + half] = values[i] - values[i + half];
        values[i] = sum;
      }
    }
  }
  const double scale = 1 / std::sqrt(static_cast<double>(count));
  for (std::size_t i = 0; i < count; ++i) values[i] *= scale;
}

/// Rotates `count` values, `stride` apart, in runs of `block`.
void rotate(float* values, std::size_t count, std::size_t stride, std::size_t block) {
  std::vector<double> run(block);
  for (std::size_t begin = 0; begin < count; begin += block) {
    float* first = values + begin * stride;
    for (std::size_t i = 0; i < block; ++i) run[i] = double{first[i * stride]};
    hadamard(run.data(), block);
    for (std::size_t i = 0; i < block; ++i) first[i * stride] = static_cast<float>(run[i]);
  }
}

/// The mean is exact. The rest is as if the channels of a run varied independently, which statistics of single channels
/// do not tell: variances are averaged, and so are the squares of the half-widths.
void rotate_channels(ChannelStatistics& channels, std::size_t block) {
  const std::size_t count = channels.mean.size();
  std::vector<double> mean(block);
  std::vector<double> middle(block);
  for (std::size_t begin = 0; begin < count; begin += block) {
    double variance = 0;
    double width = 0;
    double ordinary = 0;
    for (std::size_t i = 0; i < block; ++i) {
      const std::size_t c = begin + i;
      mean[i] = channels.mean[c];
      middle[i] = 0.5 * (double{channels.min[c]} + double{channels.max[c]});
      const double half = 0.5 * (double{channels.max[c]} - double{channels.min[c]});
      variance += std::max(0.0, double{channels.mean_square[c]} - mean[i] * mean[i]);
      width += half * half;
      if (!channels.ordinary_absmax.empty()) ordinary += std::pow(double{channels.ordinary_absmax[c]}, 2);
    }
    const double size = static_cast<double>(block);
    hadamard(mean.data(), block);
    hadamard(middle.data(), block);
    for (std::size_t i = 0; i < block; ++i) {
      const std::size_t c = begin + i;
      channels.mean[c] = static_cast<float>(mean[i]);
      channels.mean_square[c] = static_cast<float>(variance / size + mean[i] * mean[i]);
      channels.min[c] = static_cast<float>(middle[i] - std::sqrt(width / size));
      channels.max[c] = static_cast<float>(middle[i] + std::sqrt(width / size));
      if (!channels.ordinary_absmax.empty())
        channels.ordinary_absmax[c] = static_cast<float>(std::sqrt(ordinary / size));
    }
  }
}

class RotateValues : public Pass {
 public:
  explicit RotateValues(const ModelSpec& spec)
      : ruling_(value_rotation(spec)), block_(std::size_t{1} << std::countr_zero(spec.value_size)) {}

  void run(WorkingBlock& block) override {
    WorkingLinear* value = block.find(Role::kValue);
    WorkingLinear* output = block.find(Role::kAttentionOutput);
    if (!ruling_.legal || value == nullptr || output == nullptr) return;
    // Runs divide a head, so that they never reach across heads, and all heads are rotated alike.
    if (!value->bias.empty()) rotate(value->bias.data(), value->rows, 1, block_);
    if (!value->values.empty()) {
#pragma omp parallel for
      for (std::size_t c = 0; c < value->cols; ++c) rotate(value->values.data() + c, value->rows, value->cols, block_);
#pragma omp parallel for
      for (std::size_t r = 0; r < output->rows; ++r) {
        rotate(output->values.data() + r * output->cols, output->cols, 1, block_);
      }
    }
    if (ChannelStatistics* channels = block.input_statistics(*output)) rotate_channels(*channels, block_);
    const float growth = std::sqrt(static_cast<float>(block_));
    value->absmax *= growth;
    output->absmax *= growth;
    ++layers_;
  }

  std::string note() const override {
    if (!ruling_.legal) return "rotate_values: nothing is rotated, because " + ruling_.reason;
    return "rotate_values: values of " + std::to_string(layers_) + " layers rotated in runs of " +
           std::to_string(block_) + " channels";
  }

 private:
  Ruling ruling_;
  std::size_t block_;
  std::size_t layers_ = 0;
};

}  // namespace

std::unique_ptr<Pass> make_rotate_values(const ModelSpec& spec) {
  return std::make_unique<RotateValues>(spec);
}

}  // namespace ballast::quant
