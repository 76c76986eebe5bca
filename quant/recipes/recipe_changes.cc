#include "ballast/recipe_changes.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "ballast/error.h"
#include "quant/recipes/name_pattern.h"
#include "quant/recipes/recipe_switches.h"

namespace ballast {

namespace {

/// Returns the first of the changed properties of the linears' format, or null.
const char* changed_property(const RecipeChanges& changes) {
  if (changes.bits) return "bits";
  if (changes.group_size) return "group-size";
  if (changes.scale_bits) return "scale-bits";
  return changes.symmetric ? "symmetric" : nullptr;
}

/// Returns the format of fewer bits than evenly spaced values have.
WeightFormat format_of_few_bits(const RecipeChanges& changes) {
  const Codebook& book = codebook_of_bits(*changes.bits);
  if (!changes.symmetric.value_or(true)) {
    throw Error("asymmetric",
                std::string(book.name) + ", the format of " + std::to_string(book.bits) + " bits, has no zero points");
  }
  const std::size_t group_size = changes.group_size.value_or(32);
  if (group_size == 0) {
    throw Error("group-size", std::string(book.name) + ", the format of " + std::to_string(book.bits) +
                                  " bits, has groups of 32, 64 or 128 columns, not a scale per channel");
  }
  return codebook_format(book.id, group_size, changes.scale_bits.value_or(8));
}

void change_linears(const RecipeChanges& changes, WeightFormat& linears) {
  const char* option = changed_property(changes);
  if (option == nullptr) return;
  if (!linears.is_integer()) {
    throw Error(option, "needs a scheme of integers with even steps, not " + format_name(linears) + " weights");
  }
  if (changes.bits && (*changes.bits == 2 || *changes.bits == 3)) {
    linears = format_of_few_bits(changes);
    return;
  }
  linears.bits = changes.bits.value_or(linears.bits);
  linears.group_size = changes.group_size.value_or(linears.group_size);
  linears.scale_bits = changes.scale_bits.value_or(linears.scale_bits);
  linears.symmetric = changes.symmetric.value_or(linears.symmetric);
  if (linears.scale_bits == 8 && linears.group_size == 0) {
    throw Error("scale-bits", "scales of 8 bits need a group size other than channel");
  }
  try {
    linears = parse_format(format_name(linears));
  } catch (const Error& error) {
    throw Error(option, error.what());
  }
}

/// Returns whether the changes name formats, which are then not chosen automatically.
bool names_format(const RecipeChanges& changes) {
  return changed_property(changes) != nullptr || changes.outlier_fraction || changes.activation_groups ||
         changes.embedding || changes.head;
}

void set_target_bytes(const RecipeChanges& changes, Recipe& recipe) {
  if (names_format(changes) && recipe.target_bytes == Recipe::kNaturalSize) recipe.target_bytes = 0;
  if (!changes.target_bytes) return;
  if (changed_property(changes) != nullptr || changes.embedding || changes.head) {
    throw Error("target-size",
                "chooses what bits, group size, scale bits, zero points, embedding and head would set; a format for "
                "single matrices can be named");
  }
  if (!recipe.linears.is_ballast_format()) {
    throw Error("target-size", "needs a scheme of integers, not " + recipe.scheme);
  }
  recipe.target_bytes = *changes.target_bytes;
}

void check_share(const char* option, double share, double most) {
  if (share >= 0 && share <= most) return;
  throw Error(option, nlohmann::json(share).dump() + " must be a share from 0 to " + nlohmann::json(most).dump());
}

void require_int8_activations(const Recipe& recipe, const char* option) {
  if (recipe.activations == ActivationType::kInt8) return;
  throw Error(option, "needs a scheme that quantizes activations (w8a8, w4a8)");
}

void change_activations(const RecipeChanges& changes, Recipe& recipe) {
  if (changes.activation_groups) {
    require_int8_activations(recipe, "activation-scales");
    recipe.activation_groups = *changes.activation_groups;
  }
  if (changes.int16_activation_fraction) {
    require_int8_activations(recipe, "wide-inputs");
    if (recipe.target_bytes == 0) {
      throw Error("wide-inputs", "is for formats that are chosen matrix by matrix, not for one that is named");
    }
    check_share("wide-inputs", *changes.int16_activation_fraction, 1);
    recipe.int16_activation_fraction = *changes.int16_activation_fraction;
  }
}

}  // namespace

Recipe change_recipe(Recipe recipe, const RecipeChanges& changes) {
  change_linears(changes, recipe.linears);
  set_target_bytes(changes, recipe);
  if (changes.rounding) recipe.rounding = *changes.rounding;
  if (changes.outlier_fraction) {
    check_share("outliers", *changes.outlier_fraction, kMostOutlierFraction);
    recipe.outlier_fraction = *changes.outlier_fraction;
  }
  change_activations(changes, recipe);
  if (changes.embedding) recipe.embedding = *changes.embedding;
  if (changes.head) recipe.head = *changes.head;
  if (changes.prefix) recipe.prefix = *changes.prefix;
  for (const auto& [name, value] : changes.switches) quant::set_switch(recipe, name, value);
  for (const FormatOverride& entry : changes.overrides) quant::compile_name_pattern(entry.pattern, "format");
  recipe.overrides.insert(recipe.overrides.begin(), changes.overrides.begin(), changes.overrides.end());
  return recipe;
}

void check_changes(const RecipeChanges& changes, OutputFormat output_format) {
  if (output_format == OutputFormat::kBallast) return;
  for (const auto& [option, share] :
       {std::pair{"outliers", changes.outlier_fraction}, std::pair{"wide-inputs", changes.int16_activation_fraction}}) {
    if (share.value_or(0) == 0) continue;
    throw Error(option, "is for ballast's own files: those of " + std::string(output_format_name(output_format)) +
                            " cannot mix 16 bits and integers");
  }
}

}  // namespace ballast
