#include <algorithm>
#include <cmath>

#include "quant/passes.h"

namespace ballast::quant {

namespace {

void scale_columns(WorkingLinear& linear, const std::vector<float>& gain) {
  float largest = 0;
  for (const float value : gain) largest = std::max(largest, std::abs(value));
  linear.absmax *= largest;
  if (linear.values.empty()) return;
#pragma omp parallel for
  for (std::size_t r = 0; r < linear.rows; ++r) {
    float* row = linear.values.data() + r * linear.cols;
    for (std::size_t c = 0; c < linear.cols; ++c) row[c] = static_cast<float>(double{row[c]} * double{gain[c]});
  }
}

// The norm's output without its gain. A channel whose gain was 0 becomes visible, but meets a column of zeros.
void unscale(ChannelStatistics& channels, const std::vector<float>& gain) {
  for (std::size_t c = 0; c < gain.size(); ++c) {
    const float factor = gain[c] == 0 ? 0 : 1 / gain[c];
    channels.min[c] *= factor;
    channels.max[c] *= factor;
    if (factor < 0) std::swap(channels.min[c], channels.max[c]);
    channels.mean[c] *= factor;
    channels.mean_square[c] *= factor * factor;
    channels.ordinary_absmax[c] *= std::abs(factor);
  }
}

class FoldNorms : public Pass {
 public:
  void run(WorkingBlock& block) override {
    for (WorkingInput& input : block.inputs) {
      if (!input.norm) continue;
      std::vector<float>& gain = block.norms[*input.norm].gain;
      for (const std::size_t reader : input.readers) scale_columns(block.linears[reader], gain);
      if (input.statistics) unscale(input.statistics->channels, gain);
      std::ranges::fill(gain, 1.0F);
      ++norms_;
      linears_ += input.readers.size();
    }
  }

  std::string note() const override {
    return "fold_norms: " + std::to_string(norms_) + " norm gains folded into " + std::to_string(linears_) + " linears";
  }

 private:
  std::size_t norms_ = 0;
  std::size_t linears_ = 0;
};

}  // namespace

std::unique_ptr<Pass> make_fold_norms() {
  return std::make_unique<FoldNorms>();
}

}  // namespace ballast::quant
