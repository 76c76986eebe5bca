#include "tools/flags/sweep_recipes.h"

#include "ballast/error.h"
#include "tools/flags/option_checks.h"

namespace ballast::tools {
namespace {

SweepRecipe named_recipe(const char* option, const std::string& name, const Preset& preset) {
  try {
    return sweep_recipe(name, preset);
  } catch (const Error& error) {
    throw UsageError(std::string(option) + ": " + error.what());
  }
}

}  // namespace

void add_sweep_recipe_flags(CLI::App& command, SweepRecipeFlags& flags) {
  command
      .add_option("--schemes", flags.schemes,
                  "Schemes of convert, or with a size: w4a8@92MB [w8a16, w8a8, and sizes of w4a16 and w4a8]")
      ->option_text("A,B,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--sizes", flags.sizes, "Sizes of " + std::string(kSizedScheme) + ": 92MB,105MB")
      ->option_text("A,B,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--recipe", flags.files, "A recipe to try; repeatable")
      ->option_text("FILE.json")
      ->allow_extra_args(false);
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  command.add_option("--preset", flags.preset, "Amount of work for each conversion; recipes set their own rounding")
      ->option_text(CLI::detail::join(names, "|") + " [" + flags.preset + "]")
      ->check(one_of(names));
}

std::vector<SweepRecipe> sweep_recipes(const SweepRecipeFlags& flags) {
  const Preset& preset = preset_by_name(flags.preset);
  std::vector<SweepRecipe> recipes;
  for (const std::string& name : flags.schemes) recipes.push_back(named_recipe("--schemes", name, preset));
  for (const std::string& size : flags.sizes) {
    recipes.push_back(named_recipe("--sizes", std::string(kSizedScheme) + "@" + size, preset));
  }
  for (const std::filesystem::path& file : flags.files) recipes.push_back(read_sweep_recipe(file, preset));
  return recipes;
}

}  // namespace ballast::tools
