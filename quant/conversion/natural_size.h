// The target size of recipes that leave it open.
#ifndef BALLAST_QUANT_CONVERSION_NATURAL_SIZE_H_
#define BALLAST_QUANT_CONVERSION_NATURAL_SIZE_H_

#include <vector>

#include "ballast/recipe.h"
#include "model/source/model_source.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

struct SizedPlan {
  Recipe recipe;                 ///< with target_bytes as a number of bytes, or 0
  std::vector<ModulePlan> plan;  ///< by that recipe; empty where the size did not depend on it
};

/// Replaces Recipe::kNaturalSize by the bytes of the recipe's own formats, or by 0 for a model without a head or a
/// recipe that names all formats: these get their own formats. Throws Error if they cannot be planned.
SizedPlan resolve_target_bytes(const model::ModelSource& source, const Recipe& recipe, const ModelFormat& format);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_NATURAL_SIZE_H_
