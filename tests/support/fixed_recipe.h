// Recipes whose formats are known before anything is measured.
#ifndef BALLAST_TESTS_SUPPORT_FIXED_RECIPE_H_
#define BALLAST_TESTS_SUPPORT_FIXED_RECIPE_H_

#include <string_view>

#include "ballast/recipe.h"

namespace ballast::test {

/// A scheme's, without choosing.
inline Recipe fixed_recipe(std::string_view scheme) {
  Recipe recipe = recipe_for_scheme(scheme);
  recipe.target_bytes = 0;
  return recipe;
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_FIXED_RECIPE_H_
