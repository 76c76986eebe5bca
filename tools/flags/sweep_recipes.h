// The recipes of a `sweep`, from its flags.
#ifndef BALLAST_TOOLS_FLAGS_SWEEP_RECIPES_H_
#define BALLAST_TOOLS_FLAGS_SWEEP_RECIPES_H_

#include <CLI/CLI.hpp>
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

void add_sweep_recipe_flags(CLI::App& command, SweepRecipeFlags& flags);

/// Returns recipes in the order schemes, sizes, files. Throws UsageError for invalid flags, Error for an invalid file.
std::vector<SweepRecipe> sweep_recipes(const SweepRecipeFlags& flags);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_FLAGS_SWEEP_RECIPES_H_
