// The recipes of a `sweep`, from its flags.
#ifndef BALLAST_TOOLS_FLAGS_SWEEP_RECIPES_H_
#define BALLAST_TOOLS_FLAGS_SWEEP_RECIPES_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ballast/sweep.h"

namespace ballast::tools {

struct SweepRecipeFlags {
  std::vector<std::string> schemes{};          ///< "w8a8", "w4a8@92MB"
  std::vector<std::string> sizes{};            ///< "92MB": for kSizedScheme
  std::vector<std::filesystem::path> files{};  ///< recipes, named by their file
  std::string preset = "balanced";             ///< of the schemes; of the files everything but the rounding
};

/// The scheme of a size without a scheme: its activations cost no accuracy.
inline constexpr const char* kSizedScheme = "w4a16";

void add_sweep_recipe_flags(CLI::App& command, SweepRecipeFlags& flags);

/// Returns recipes in the order schemes, sizes, files. Throws UsageError for invalid flags, Error for an invalid file.
std::vector<SweepRecipe> sweep_recipes(const SweepRecipeFlags& flags);

/// Returns the recipes that are tried if no flag names any: from 8 bits per weight to fewer than 5, for a model with
/// `weights` weights.
std::vector<SweepRecipe> default_recipes(std::uint64_t weights, const std::string& preset);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_FLAGS_SWEEP_RECIPES_H_
