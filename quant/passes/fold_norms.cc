#include <algorithm>
#include <cmath>

#include "quant/passes/fold_arithmetic.h"
#include "quant/passes/passes.h"

namespace ballast::quant {

namespace {

// The limit of a bias in the norm after dividing it by the gain; a channel whose bias would become larger keeps its
// gain, so that the bias fits every type in which norms are stored.
constexpr float kLargestBias = 60000.0F;

/// Returns the part of a channel's gain that can leave the norm: all of it, or 1 if the bias would become too large.
float leaving_gain(const WorkingNorm& norm, std::size_t channel) {
  const float gain = norm.gain[channel];
  if (norm.bias.empty() || norm.bias[channel] == 0) return gain;
  return std::abs(norm.bias[channel]) <= kLargestBias * std::abs(gain) ? gain : 1.0F;
}

class FoldNorms : public Pass {
 public:
  void run(WorkingBlock& block) override {
    for (WorkingInput& input : block.inputs) {
      if (const std::optional<std::size_t> index = input.norm ? input.norm : input.gated_norm) {
        fold(block, block.norms[*index], input);
      }
    }
  }

  std::string note() const override {
    return "fold_norms: " + std::to_string(norms_) + " norm gains folded into " + std::to_string(linears_) + " linears";
  }

 private:
  /// A gain that is narrower than the input belongs to each head.
  void fold(WorkingBlock& block, WorkingNorm& norm, WorkingInput& input) {
    const std::size_t width = block.linears[input.readers.front()].cols;
    std::vector<float> gain(width);
    std::vector<float> inverse(width);
    for (std::size_t c = 0; c < width; ++c) {
      gain[c] = leaving_gain(norm, c % norm.gain.size());
      // A channel whose gain was 0 gets values, but they are multiplied by a column of zeros.
      inverse[c] = gain[c] == 0 ? 0 : 1 / gain[c];
    }
    for (std::size_t c = 0; c < norm.gain.size(); ++c) {
      norm.gain[c] = gain[c] == norm.gain[c] ? 1.0F : norm.gain[c];
      if (!norm.bias.empty() && gain[c] != 0) norm.bias[c] /= gain[c];
    }
    for (const std::size_t reader : input.readers) scale_columns(block.linears[reader], gain);
    if (input.statistics) scale_channels(input.statistics->channels, inverse);
    ++norms_;
    linears_ += input.readers.size();
  }

  std::size_t norms_ = 0;
  std::size_t linears_ = 0;
};

}  // namespace

std::unique_ptr<Pass> make_fold_norms() {
  return std::make_unique<FoldNorms>();
}

}  // namespace ballast::quant
