#include <algorithm>
#include <array>
#include <cstdio>

#include "ballast/sweep.h"
#include "ballast/text.h"

namespace ballast {

namespace {

/// Returns a size with at least three digits, because neighbouring sizes may differ by a tenth.
std::string size_name(double bytes) {
  std::array<char, 32> text{};
  if (bytes < 1e3) {
    std::snprintf(text.data(), text.size(), "%.0fB", bytes);
    return text.data();
  }
  const bool small = bytes < 1e6;
  const double value = bytes / (small ? 1e3 : 1e6);
  const int decimals = value < 10 ? 2 : value < 100 && small ? 1 : 0;
  std::snprintf(text.data(), text.size(), "%.*f%s", decimals, value, small ? "kB" : "MB");
  return text.data();
}

}  // namespace

SweepRecipe sweep_recipe(std::string_view name, const Preset& preset) {
  const std::size_t at = name.find('@');
  SweepRecipe recipe{.name = std::string(name)};
  recipe.conversion.recipe = recipe_for_scheme(name.substr(0, at));
  apply_preset(preset, recipe.conversion);
  if (at != std::string_view::npos) {
    recipe.conversion.recipe.target_bytes = text::parse_bytes(name, name.substr(at + 1));
  }
  return recipe;
}

SweepRecipe read_sweep_recipe(const std::filesystem::path& path, const Preset& preset) {
  SweepRecipe recipe{.name = path.stem().string()};
  // File names may contain characters that names of recipes may not.
  std::ranges::replace(recipe.name, ' ', '_');
  apply_preset(preset, recipe.conversion);
  recipe.conversion.recipe = read_recipe(path);
  return recipe;
}

std::vector<SweepRecipe> default_sweep_recipes(std::uint64_t weights, const Preset& preset) {
  // Bits per weight of the files. Below 4.75 even 4 bits in groups, with their scales, do not fit.
  constexpr std::array kBits = {7.0, 6.25, 5.5, 4.75};
  std::vector<SweepRecipe> recipes = {sweep_recipe("w8a16", preset), sweep_recipe("w8a8", preset)};
  for (const std::string scheme : {"w4a16", "w4a8"}) {
    for (const double bits : kBits) {
      recipes.push_back(sweep_recipe(scheme + "@" + size_name(bits / 8 * static_cast<double>(weights)), preset));
    }
  }
  return recipes;
}

}  // namespace ballast
