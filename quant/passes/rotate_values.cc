#include <bit>
#include <string>

#include "quant/passes/fold_rules.h"
#include "quant/passes/hadamard.h"
#include "quant/passes/passes.h"
#include "quant/passes/rotation.h"

namespace ballast::quant {

namespace {

using model::Role;

class RotateValues : public Pass {
 public:
  explicit RotateValues(const ModelSpec& spec)
      : ruling_(value_rotation(spec)), rotation_(*Hadamard::of_order(run_size(spec))) {}

  void run(WorkingBlock& block) override {
    WorkingLinear* value = block.find(Role::kValue);
    WorkingLinear* output = block.find(Role::kAttentionOutput);
    if (!ruling_.legal || value == nullptr || output == nullptr) return;
    // Runs divide a head, so that they never reach across heads, and all heads are rotated alike.
    rotate_columns(*value, rotation_);
    rotate_rows(*output, rotation_);
    if (ChannelStatistics* channels = block.input_statistics(*output)) rotate_channels(*channels, rotation_);
    ++layers_;
  }

  std::string note() const override {
    if (!ruling_.legal) return "rotate_values: nothing is rotated, because " + ruling_.reason;
    return "rotate_values: values of " + std::to_string(layers_) + " layers rotated in runs of " +
           std::to_string(rotation_.order()) + " channels";
  }

 private:
  /// A power of two, of which there is always a matrix.
  static std::size_t run_size(const ModelSpec& spec) { return std::size_t{1} << std::countr_zero(spec.value_size); }

  FoldLegality ruling_;
  Hadamard rotation_;
  std::size_t layers_ = 0;
};

}  // namespace

std::unique_ptr<Pass> make_rotate_values(const ModelSpec& spec) {
  return std::make_unique<RotateValues>(spec);
}

}  // namespace ballast::quant
