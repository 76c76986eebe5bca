// The switches of a recipe by their names in JSON.
#ifndef BALLAST_QUANT_RECIPES_RECIPE_SWITCHES_H_
#define BALLAST_QUANT_RECIPES_RECIPE_SWITCHES_H_

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "ballast/error.h"
#include "ballast/recipe.h"

namespace ballast::quant {

struct RecipeSwitch {
  std::string_view name;
  bool Recipe::* field;
};

inline constexpr std::array<RecipeSwitch, 13> kRecipeSwitches{{
    {"fold_norms", &Recipe::fold_norms},
    {"fold_biases", &Recipe::fold_biases},
    {"center_norms", &Recipe::center_norms},
    {"equalize", &Recipe::equalize},
    {"smooth", &Recipe::smooth},
    {"rotate", &Recipe::rotate},
    {"rotate_values", &Recipe::rotate_values},
    {"untie_head", &Recipe::untie_head},
    {"activation_groups", &Recipe::activation_groups},
    {"wide_end", &Recipe::int16_activations_at_end},
    {"wide_amplified", &Recipe::int16_activations_where_amplified},
    {"shrink_experts", &Recipe::shrink_experts},
    {"correct_drift", &Recipe::correct_drift},
}};

/// Returns the field of the switch with this name; null: there is none.
inline bool Recipe::* find_switch(std::string_view name) {
  const auto it = std::ranges::find(kRecipeSwitches, name, &RecipeSwitch::name);
  return it == kRecipeSwitches.end() ? nullptr : it->field;
}

/// Throws Error for an unknown name.
inline void set_switch(Recipe& recipe, std::string_view name, bool value) {
  bool Recipe::* field = find_switch(name);
  if (field == nullptr) throw Error("'" + std::string(name) + "'", "is not a switch of recipes");
  recipe.*field = value;
}

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_RECIPES_RECIPE_SWITCHES_H_
