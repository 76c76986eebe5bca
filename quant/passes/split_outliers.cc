#include <algorithm>

#include "ballast/error.h"
#include "quant/passes/passes.h"
#include "quant/quantize/outlier_channels.h"

namespace ballast::quant {

namespace {

class SplitOutliers : public Pass {
 public:
  explicit SplitOutliers(double fraction) : fraction_(fraction) {}

  void run(WorkingBlock& block) override {
    for (const WorkingInput& input : block.inputs) {
      const bool pays = std::ranges::any_of(input.readers, [&](std::size_t r) {
        return keeps_outliers(block.linears[r].format, block.linears[r].activations);
      });
      if (!pays) continue;
      if (!input.statistics) throw Error("split_outliers", "needs the statistics of a calibration (--stats)");
      const WorkingLinear& first = block.linears[input.readers.front()];
      // All readers of an input have the same outlier channels, because it is quantized once for all of them.
      const std::vector<std::int32_t> columns =
          outlier_channels(input.statistics->channels, fraction_, first.activations);
      for (const std::size_t reader : input.readers) {
        WorkingLinear& linear = block.linears[reader];
        if (linear.format.is_ballast_format()) linear.outlier_columns = columns;
      }
      columns_ += columns.size();
      channels_ += first.cols;
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

std::unique_ptr<Pass> make_split_outliers(double fraction) {
  return std::make_unique<SplitOutliers>(fraction);
}

}  // namespace ballast::quant
