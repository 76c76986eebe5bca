// The format that a recipe gives a matrix when no pattern in it asks for another.
#ifndef BALLAST_QUANT_SEARCH_DEFAULT_FORMAT_H_
#define BALLAST_QUANT_SEARCH_DEFAULT_FORMAT_H_

#include "ballast/recipe.h"
#include "ballast/spec.h"
#include "model/arch/role.h"

namespace ballast::quant {

/// `absmax`: of the matrix' values; for its size 0 will do. With a target size, the format that the search starts from.
WeightFormat default_format(const Recipe& recipe, const ModelSpec& spec, model::Role role, float absmax);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_SEARCH_DEFAULT_FORMAT_H_
