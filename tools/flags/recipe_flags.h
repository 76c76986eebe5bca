// The flags of `convert` that set the recipe.
#ifndef BALLAST_TOOLS_FLAGS_RECIPE_FLAGS_H_
#define BALLAST_TOOLS_FLAGS_RECIPE_FLAGS_H_

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/recipe_changes.h"

namespace ballast::tools {

/// Flags that are absent keep the value of the recipe file or the scheme.
struct RecipeFlags {
  std::string scheme = "w8a8";
  std::optional<std::filesystem::path> file;
  std::optional<int> bits;
  std::optional<std::string> group_size;
  std::optional<int> scale_bits;
  bool symmetric = false;
  bool asymmetric = false;
  std::optional<std::string> rounding;     ///< "nearest", "search" or "gptq"
  std::optional<std::string> target_size;  ///< "92MB"
  std::optional<std::string> outliers;
  std::optional<std::string> activation_scales;  ///< "token" or "group"
  std::optional<std::string> int16_activation_fraction;
  std::optional<std::string> embedding;
  std::optional<std::string> head;
  std::vector<std::string> formats;  ///< "REGEX=FORMAT"
  std::optional<std::string> prefix;
  bool no_fold_norms = false;
  bool no_fold_biases = false;
  bool no_center_norms = false;
  bool equalize = false;
  bool smooth = false;
  bool no_smooth = false;
  bool rotate = false;
  bool rotate_values = false;
  bool no_int16_activations_at_end = false;
  bool no_int16_activations_where_amplified = false;
  bool no_shrink_experts = false;
  bool no_correct_drift = false;
  bool untie_head = false;
};

void add_recipe_flags(CLI::App& command, RecipeFlags& flags);

/// Returns the changes that the flags name, without scheme and file. Throws UsageError.
RecipeChanges changes_from_flags(const RecipeFlags& flags);

/// Returns the file's recipe or the scheme's, changed by the other flags. Throws Error for an invalid file, UsageError
/// for flags that contradict it.
Recipe recipe_from_flags(const RecipeFlags& flags);

/// Throws UsageError if a flag requests a feature that files of this format cannot hold.
void check_output_format(const RecipeFlags& flags, OutputFormat output_format);

/// Parses "none" or "1.5%" of `option` as a share. Throws UsageError, also for more than `most_percent`.
double parse_share(const std::string& option, const std::string& text, int most_percent);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_FLAGS_RECIPE_FLAGS_H_
