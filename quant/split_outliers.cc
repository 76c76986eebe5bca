#include <algorithm>
#include <cmath>
#include <numeric>

#include "ballast/error.h"
#include "quant/passes.h"

namespace ballast::quant {

namespace {

// The channels with the largest magnitudes, ascending.
std::vector<std::int32_t> largest_channels(const ChannelStatistics& channels, std::size_t count) {
  std::vector<std::int32_t> order(channels.min.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) {
    return channels.absmax(static_cast<std::size_t>(a)) > channels.absmax(static_cast<std::size_t>(b));
  });
  order.resize(std::min(count, order.size()));
  std::ranges::sort(order);
  return order;
}

class SplitOutliers : public Pass {
 public:
  explicit SplitOutliers(double fraction) : fraction_(fraction) {}

  void run(WorkingBlock& block) override {
    for (const WorkingInput& input : block.inputs) {
      if (!input.statistics) throw Error("split_outliers", "needs the statistics of a calibration (--stats)");
      const std::size_t cols = block.linears[input.readers.front()].cols;
      const auto count = static_cast<std::size_t>(std::ceil(fraction_ * static_cast<double>(cols)));
      const std::vector<std::int32_t> columns = largest_channels(input.statistics->channels, count);
      for (const std::size_t reader : input.readers) block.linears[reader].outlier_columns = columns;
      columns_ += columns.size();
      channels_ += cols;
    }
  }

  std::string note() const override {
    return "split_outliers: " + std::to_string(columns_) + " of " + std::to_string(channels_) +
           " input channels stay in 16 bits";
  }

 private:
  double fraction_;
  std::size_t columns_ = 0;
  std::size_t channels_ = 0;
};

}  // namespace

std::unique_ptr<Pass> make_split_outliers(double fraction) { return std::make_unique<SplitOutliers>(fraction); }

}  // namespace ballast::quant
