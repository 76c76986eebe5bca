// Recipes whose formats are known before any measurement.
#ifndef BALLAST_TESTS_SUPPORT_FIXED_RECIPE_H_
#define BALLAST_TESTS_SUPPORT_FIXED_RECIPE_H_

#include <string_view>

#include "ballast/recipe.h"

namespace ballast::test {

/// Returns a scheme's recipe with the scheme's own formats.
inline Recipe fixed_recipe(std::string_view scheme) {
  Recipe recipe = recipe_for_scheme(scheme);
  recipe.target_bytes = 0;
  return recipe;
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_FIXED_RECIPE_H_
