#include "ballast/recipe_changes.h"

#include <doctest/doctest.h>

#include <string>

#include "error_message.h"

namespace ballast {
namespace {

using test::error_message;

std::string refusal(const char* scheme, const RecipeChanges& changes) {
  return error_message([&] { change_recipe(recipe_for_scheme(scheme), changes); });
}

TEST_CASE("no changes leave a recipe, switches change what they name") {
  CHECK(recipe_json(change_recipe(recipe_for_scheme("w4a8"), {})) == recipe_json(recipe_for_scheme("w4a8")));
  Recipe expected = recipe_for_scheme("w4a8");
  expected.rotate = true;
  expected.int16_activations_at_end = false;
  const RecipeChanges changes{.switches = {{"rotate", true}, {"wide_end", false}}};
  CHECK(recipe_json(change_recipe(recipe_for_scheme("w4a8"), changes)) == recipe_json(expected));
  CHECK(refusal("w4a8", {.switches = {{"colour", true}}}) == "'colour': is not a switch of recipes");
}

TEST_CASE("a refused change names its option") {
  CHECK(refusal("f32", {.bits = 4}) == "bits: needs a scheme of integers with even steps, not f32 weights");
  CHECK(refusal("w8a8", {.bits = 7}).starts_with("bits: "));
  CHECK(refusal("w8a8", {.group_size = 48}).starts_with("group-size: "));
  CHECK(refusal("w8a8", {.group_size = 0, .scale_bits = 8}) ==
        "scale-bits: scales of 8 bits need a group size other than channel");
  CHECK(refusal("w4a16", {.symmetric = true, .target_bytes = 9}).starts_with("target-size: chooses"));
  CHECK(refusal("bf16", {.target_bytes = 9}) == "target-size: needs a scheme of integers, not bf16");
  CHECK(refusal("w8a8", {.outlier_fraction = 0.6}) == "outliers: 0.6 must be a share from 0 to 0.5");
  CHECK(refusal("w8a16", {.activation_groups = true}).starts_with("activation-scales: needs"));
  CHECK(refusal("w8a8", {.int16_activation_fraction = 1.5}).starts_with("wide-inputs: 1.5"));
  CHECK(refusal("w8a8", {.overrides = {{"a(", {}}}}).starts_with("format: 'a('"));
}

TEST_CASE("2 and 3 bits are codebooks in groups of 32 with 8-bit scales, unless other groups and scales are named") {
  const auto linears = [](const char* scheme, const RecipeChanges& changes) {
    return format_name(change_recipe(recipe_for_scheme(scheme), changes).linears);
  };
  CHECK(linears("w4a16", {.bits = 2}) == "nl2-g32-s8");
  CHECK(linears("w8a8", {.bits = 3}) == "nl3-g32-s8");
  CHECK(linears("w4a8", {.bits = 3, .group_size = 128, .scale_bits = 16}) == "nl3-g128");
  CHECK(linears("w4a8", {.bits = 2, .symmetric = true}) == "nl2-g32-s8");
  CHECK(change_recipe(recipe_for_scheme("w4a16"), {.bits = 3}).target_bytes == 0);
  CHECK(refusal("w4a16", {.bits = 3, .symmetric = false}) ==
        "asymmetric: nl3, the format of 3 bits, has no zero points");
  CHECK(refusal("w4a16", {.bits = 2, .group_size = 0}) ==
        "group-size: nl2, the format of 2 bits, has groups of 32, 64 or 128 columns, not a scale per channel");
  CHECK(refusal("bf16", {.bits = 2}) == "bits: needs a scheme of integers with even steps, not bf16 weights");
}

TEST_CASE("16 bits beside integers are for ballast's own files") {
  const RecipeChanges outliers{.outlier_fraction = 0.1};
  check_changes(outliers, OutputFormat::kBallast);
  check_changes({.outlier_fraction = 0.0}, OutputFormat::kMlx);
  CHECK(error_message([&] { check_changes(outliers, OutputFormat::kMlx); }) ==
        "outliers: is for ballast's own files: those of mlx cannot mix 16 bits and integers");
}

}  // namespace
}  // namespace ballast
