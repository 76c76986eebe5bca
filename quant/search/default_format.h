// The format of a matrix for which a recipe has no pattern.
#ifndef BALLAST_QUANT_SEARCH_DEFAULT_FORMAT_H_
#define BALLAST_QUANT_SEARCH_DEFAULT_FORMAT_H_

#include "ballast/recipe.h"
#include "ballast/spec.h"
#include "model/arch/role.h"

namespace ballast::quant {

/// Returns the format. `absmax` is the largest magnitude of the matrix's values; for its size alone 0 is sufficient.
/// With a target size, the search starts from this format.
WeightFormat default_format(const Recipe& recipe, const ModelSpec& spec, model::Role role, float absmax);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_SEARCH_DEFAULT_FORMAT_H_
