#include "quant/conversion/natural_size.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "model/source/model_source.h"
#include "quant/prepared_blocks.h"
#include "quant/search/candidates.h"

namespace ballast::quant {

namespace {

/// The plan with the formats of these bits that a search may choose.
std::vector<ModulePlan> with_small_scales(std::vector<ModulePlan> plan, const ModelFormat& format) {
  for (ModulePlan& module : plan) {
    ModulePlan other = module;
    other.format.scale_bits = 8;
    if (module.free_format && format.holds(other)) module = other;
  }
  return plan;
}

}  // namespace

ConvertOptions resolve_target_bytes(const std::filesystem::path& model, const ConvertOptions& options,
                                    const ModelFormat& format) {
  ConvertOptions sized = options;
  if (options.recipe.target_bytes != Recipe::kNaturalSize) return sized;
  sized.recipe.target_bytes = 0;
  const model::ModelSource source(model);
  // Formats are compared by predictions; the conversion itself refuses a model that is already quantized.
  if (!source.spec().has_head || source.quantization()) return sized;
  const std::vector<ModulePlan> plan = plan_model({.source = source, .recipe = sized.recipe});
  check_plan(sized.recipe, plan, format);
  sized.recipe.target_bytes = format.file_bytes(plan);
  // Small models are mostly headers, which scales of 8 bits and zero points make longer. With a size, matrices are free
  // that the scheme would keep in 16 bits.
  const std::vector<ModulePlan> chosen = plan_model({.source = source, .recipe = sized.recipe});
  if (std::ranges::none_of(chosen, &ModulePlan::free_format)) {
    sized.recipe.target_bytes = 0;
    return sized;
  }
  sized.recipe.target_bytes = std::max({sized.recipe.target_bytes, format.file_bytes(with_small_scales(chosen, format)),
                                        format.file_bytes(plan_limits(chosen, format).least)});
  return sized;
}

}  // namespace ballast::quant
