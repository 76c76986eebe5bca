#include "tools/flags/sweep_recipes.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "ballast/error.h"
#include "tools/flags/option_checks.h"
#include "tools/terminal/units.h"

namespace ballast::tools {
namespace {

SweepRecipe scheme_recipe(const std::string& scheme, const Preset& preset) {
  try {
    SweepRecipe recipe{.name = scheme};
    recipe.conversion.recipe = recipe_for_scheme(scheme);
    apply_preset(preset, recipe.conversion);
    return recipe;
  } catch (const Error& error) {
    throw UsageError(std::string("--schemes: ") + error.what());
  }
}

SweepRecipe sized_recipe(const std::string& scheme, std::string_view option, const std::string& size,
                         const Preset& preset) {
  SweepRecipe recipe = scheme_recipe(scheme, preset);
  recipe.name += "@" + size;
  recipe.conversion.recipe.target_bytes = parse_bytes(option, size);
  return recipe;
}

SweepRecipe parse_scheme(const std::string& text, const Preset& preset) {
  const std::size_t at = text.find('@');
  if (at == std::string::npos) return scheme_recipe(text, preset);
  return sized_recipe(text.substr(0, at), "--schemes", text.substr(at + 1), preset);
}

SweepRecipe read_recipe(const std::filesystem::path& path, const Preset& preset) {
  SweepRecipe recipe{.name = path.stem().string()};
  // File names may contain characters that names of recipes may not.
  std::ranges::replace(recipe.name, ' ', '_');
  apply_preset(preset, recipe.conversion);
  recipe.conversion.recipe = ballast::read_recipe(path);
  return recipe;
}

// At least three digits, because neighbouring sizes may differ by a tenth.
std::string size_name(double bytes) {
  if (bytes < 1e3) return format_fixed(bytes, 0) + "B";
  const bool small = bytes < 1e6;
  const double value = bytes / (small ? 1e3 : 1e6);
  return format_fixed(value, value < 10 ? 2 : value < 100 && small ? 1 : 0) + (small ? "kB" : "MB");
}

}  // namespace

void add_sweep_recipe_flags(CLI::App& command, SweepRecipeFlags& flags) {
  command
      .add_option("--schemes", flags.schemes,
                  "Schemes of convert, or with a size: w4a8@92MB [w8a16, w8a8, and sizes of w4a16 and w4a8]")
      ->option_text("A,B,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--sizes", flags.sizes, std::string("Sizes of ") + kSizedScheme + ": 92MB,105MB")
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
  for (const std::string& scheme : flags.schemes) recipes.push_back(parse_scheme(scheme, preset));
  for (const std::string& size : flags.sizes) recipes.push_back(sized_recipe(kSizedScheme, "--sizes", size, preset));
  for (const std::filesystem::path& file : flags.files) recipes.push_back(read_recipe(file, preset));
  return recipes;
}

std::vector<SweepRecipe> default_recipes(std::uint64_t weights, const std::string& preset_name) {
  const Preset& preset = preset_by_name(preset_name);
  // Bits per weight of the files. Below 4.75 even 4 bits in groups, with their scales, do not fit.
  constexpr std::array kBits = {7.0, 6.25, 5.5, 4.75};
  std::vector<SweepRecipe> recipes = {scheme_recipe("w8a16", preset), scheme_recipe("w8a8", preset)};
  for (const char* scheme : {"w4a16", "w4a8"}) {
    for (const double bits : kBits) {
      recipes.push_back(sized_recipe(scheme, "size", size_name(bits / 8 * static_cast<double>(weights)), preset));
    }
  }
  return recipes;
}

}  // namespace ballast::tools
