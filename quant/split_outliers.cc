#include <algorithm>
#include <cmath>
#include <numeric>

#include "ballast/error.h"
#include "quant/passes.h"

namespace ballast::quant {

namespace {

using Activations = Recipe::Activations;

// The channels that score highest, ascending.
std::vector<std::int32_t> highest(const std::vector<float>& scores, std::size_t count) {
  std::vector<std::int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::int32_t channel) { return scores[static_cast<std::size_t>(channel)]; });
  order.resize(std::min(count, order.size()));
  std::ranges::sort(order);
  return order;
}

class SplitOutliers : public Pass {
 public:
  SplitOutliers(double fraction, Activations activations) : fraction_(fraction), activations_(activations) {}

  void run(WorkingBlock& block) override {
    for (const WorkingInput& input : block.inputs) {
      const bool pays =
          std::ranges::any_of(input.readers, [&](std::size_t r) { return gains(block.linears[r].format); });
      if (!pays) continue;
      if (!input.statistics) throw Error("split_outliers", "needs the statistics of a calibration (--stats)");
      const std::size_t cols = block.linears[input.readers.front()].cols;
      const auto count = static_cast<std::size_t>(std::ceil(fraction_ * static_cast<double>(cols)));
      // All readers of an input leave the same channels out: it is quantized once for all of them.
      const std::vector<std::int32_t> columns = highest(scores(input.statistics->channels), count);
      for (const std::size_t reader : input.readers) {
        WorkingLinear& linear = block.linears[reader];
        if (linear.format.kind == WeightFormat::Kind::kInteger) linear.outlier_columns = columns;
      }
      columns_ += columns.size();
      channels_ += cols;
    }
  }

  std::string note() const override {
    return "split_outliers: " + std::to_string(columns_) + " of " + std::to_string(channels_) +
           " input channels stay in 16 bits";
  }

 private:
  bool gains(const WeightFormat& format) const {
    return format.kind == WeightFormat::Kind::kInteger && (activations_ == Activations::kInt8 || format.bits < 8);
  }

  // What a channel costs when it is not left out: with INT8 activations its magnitude widens the grid of all others,
  // with rounded weights alone its energy carries its column's rounding error into the output.
  std::vector<float> scores(const ChannelStatistics& channels) const {
    if (activations_ == Activations::kFloat) return channels.mean_square;
    std::vector<float> absmax(channels.min.size());
    for (std::size_t c = 0; c < absmax.size(); ++c) absmax[c] = channels.absmax(c);
    return absmax;
  }

  double fraction_;
  Activations activations_;
  std::size_t columns_ = 0;
  std::size_t channels_ = 0;
};

}  // namespace

std::unique_ptr<Pass> make_split_outliers(double fraction, Activations activations) {
  return std::make_unique<SplitOutliers>(fraction, activations);
}

}  // namespace ballast::quant
