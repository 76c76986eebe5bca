#include <bit>
#include <optional>
#include <set>
#include <string>

#include "model/mixer/mixer_kind.h"
#include "model/source/hadamard.h"
#include "quant/passes/fold_rules.h"
#include "quant/passes/passes.h"
#include "quant/passes/rotation.h"

namespace ballast::quant {

namespace {

class RotateValues : public Pass {
 public:
  explicit RotateValues(const ModelSpec& spec) : spec_(spec) {}

  void run(WorkingBlock& block) override {
    if (!block.layer) return;
    const std::optional<model::ValuePath> path = model::value_path(spec_.layers[*block.layer]);
    if (!path) return;
    if (!path->rotation.legal) {
      why_not_ = path->rotation.reason;
      return;
    }
    // Runs divide a head, so they never extend over heads, and all heads have the same rotation.
    const Hadamard rotation = *Hadamard::of_order(run_size(*path));
    WorkingLinear& output = *block.find(path->output);
    rotate_columns(*block.find(path->value), rotation);
    rotate_rows(output, rotation);
    if (ChannelStatistics* channels = block.input_statistics(output)) rotate_channels(*channels, rotation);
    ++layers_;
    runs_.insert(rotation.order());
  }

  std::string note() const override {
    if (layers_ == 0) return "rotate_values: nothing is rotated" + (why_not_.empty() ? "" : ", because " + why_not_);
    std::string runs;
    for (const std::size_t run : runs_) runs += (runs.empty() ? "" : " and ") + std::to_string(run);
    return "rotate_values: values of " + std::to_string(layers_) + " layers rotated in runs of " + runs + " channels" +
           (why_not_.empty() ? "" : "; others are not, because " + why_not_);
  }

 private:
  /// Returns a power of two, for which a matrix always exists.
  static std::size_t run_size(const model::ValuePath& path) {
    return std::size_t{1} << std::countr_zero(path.head_size);
  }

  ModelSpec spec_;
  std::size_t layers_ = 0;
  std::set<std::size_t> runs_;
  std::string why_not_;  ///< of the last layer whose values are not rotated
};

}  // namespace

std::unique_ptr<Pass> make_rotate_values(const ModelSpec& spec) {
  return std::make_unique<RotateValues>(spec);
}

}  // namespace ballast::quant
