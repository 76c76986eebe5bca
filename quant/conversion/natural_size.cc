#include "quant/conversion/natural_size.h"

#include <vector>

#include "quant/conversion/conversion_inputs.h"
#include "quant/search/candidates.h"

namespace ballast::quant {

ConvertOptions with_size(const std::filesystem::path& model, const ConvertOptions& options, const ModelFormat& format) {
  ConvertOptions sized = options;
  if (options.recipe.target_bytes != Recipe::kNaturalSize) return sized;
  sized.recipe.target_bytes = 0;
  const ConversionInputs inputs(model, sized);
  const std::vector<ModulePlan> plan = plan_model(inputs.preparation(nullptr));
  check_plan(sized.recipe, plan, format);
  sized.recipe.target_bytes = format.file_bytes(plan);
  return sized;
}

}  // namespace ballast::quant
