#include "quant/conversion/sample_precision.h"

#include "quant/block/working_block.h"

namespace ballast::quant {

SamplePrecision sample_precision(const Recipe& recipe, std::span<const ModulePlan> plan, const ModelFormat& format) {
  constexpr double kFewBits = 7;  // docs/method.md has what others give
  double weights = 0;
  double bytes = 0;
  for (const ModulePlan& module : plan) {
    if (!module.is_quantized() || is_embedding(module.id.role) || module.id.role == model::Role::kHead) continue;
    weights += static_cast<double>(module.weights());
    bytes += static_cast<double>(format.bytes(module));
  }
  if (recipe.target_bytes > 0) {
    bytes += static_cast<double>(recipe.target_bytes) - static_cast<double>(format.file_bytes(plan));
  }
  return 8 * bytes < kFewBits * weights ? SamplePrecision::kCoarse : SamplePrecision::kFine;
}

}  // namespace ballast::quant
