// Changes to a recipe that a user names: the flags of `ballast convert`, the keyword arguments of the Python package.
#ifndef BALLAST_RECIPE_CHANGES_H_
#define BALLAST_RECIPE_CHANGES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ballast/convert.h"
#include "ballast/prefix.h"
#include "ballast/recipe.h"

namespace ballast {

/// Absent values change nothing.
struct RecipeChanges {
  std::optional<int> bits{};                ///< of the linears' weights
  std::optional<std::size_t> group_size{};  ///< of the linears; 0: one scale per channel
  std::optional<int> scale_bits{};          ///< of the linears' groups
  std::optional<bool> symmetric{};          ///< the linears have no zero points
  std::optional<Recipe::Rounding> rounding{};
  std::optional<std::uint64_t> target_bytes{};
  std::optional<double> outlier_fraction{};
  std::optional<bool> activation_groups{};
  std::optional<double> int16_activation_fraction{};
  std::optional<WeightFormat> embedding{};
  std::optional<WeightFormat> head{};
  std::vector<FormatOverride> overrides{};  ///< come before the recipe's
  std::optional<CachedPrefix> prefix{};
  std::map<std::string, bool> switches{};  ///< by their names in a recipe's JSON: "fold_norms"
};

/// The largest share of a linear's input channels that can stay in 16 bits.
inline constexpr double kMostOutlierFraction = 0.5;

/// Returns the recipe with these changes. Formats that are named are not chosen automatically. Throws Error for changes
/// that contradict each other or the recipe. Its context is an option in the spelling of the command line without the
/// leading hyphens: "wide-inputs".
Recipe change_recipe(Recipe recipe, const RecipeChanges& changes);

/// Throws Error, as change_recipe does, if the changes request a feature that files of this format cannot hold. Such
/// features of a scheme are left out instead.
void check_changes(const RecipeChanges& changes, OutputFormat output_format);

}  // namespace ballast

#endif  // BALLAST_RECIPE_CHANGES_H_
