#include "quant/conversion/natural_size.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "quant/conversion/prepared_blocks.h"
#include "quant/search/candidates.h"

namespace ballast::quant {

namespace {

/// Returns the plan with those formats of these bits that a search may choose.
std::vector<ModulePlan> with_small_scales(std::vector<ModulePlan> plan, const ModelFormat& format) {
  for (ModulePlan& module : plan) {
    ModulePlan other = module;
    other.format.scale_bits = 8;
    if (module.free_format && format.holds(other)) module = other;
  }
  return plan;
}

}  // namespace

SizedPlan resolve_target_bytes(const model::ModelSource& source, const Recipe& recipe, const ModelFormat& format) {
  SizedPlan sized = {.recipe = recipe, .plan = {}};
  if (recipe.target_bytes != Recipe::kNaturalSize) return sized;
  std::uint64_t& target = sized.recipe.target_bytes;
  target = 0;
  // Formats are weighed by predictions. A model that is quantized already is refused later.
  if (!source.spec().has_head || source.quantization()) return sized;
  std::vector<ModulePlan> natural = plan_model(Preparation(source, sized.recipe, format));
  check_plan(sized.recipe, natural, format);
  target = format.file_bytes(natural);
  // A target size changes the plan: the search chooses the columns in 16 bits, and the formats of matrices of mixtures
  // that the scheme would keep in 16 bits.
  sized.plan = plan_model(Preparation(source, sized.recipe, format));
  if (std::ranges::none_of(sized.plan, &ModulePlan::free_format)) {
    target = 0;
    sized.plan = std::move(natural);
    return sized;
  }
  // Small models are mostly headers, which scales of 8 bits and zero points make longer.
  target = std::max({target, format.file_bytes(with_small_scales(sized.plan, format)),
                     format.file_bytes(plan_limits(sized.plan, format).least)});
  return sized;
}

}  // namespace ballast::quant
