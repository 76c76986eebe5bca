#include "tools/flags/sweep_recipes.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ballast/error.h"
#include "temporary_directory.h"
#include "tools/flags/option_checks.h"

namespace ballast::tools {
namespace {

TEST_CASE("schemes, sizes and files become recipes with separate names") {
  const test::TemporaryDirectory directory;
  const auto file = test::write_file(directory / "five bits.json", R"({"scheme": "w4a16", "linears": "int5-g32"})");
  const std::vector<SweepRecipe> recipes =
      sweep_recipes({.schemes = {"w8a8", "w4a8@92MB"}, .sizes = {"0.1GB"}, .files = {file}});
  REQUIRE(recipes.size() == 4);
  CHECK(recipes[0].name == "w8a8");
  CHECK(recipes[0].conversion.recipe.scheme == "w8a8");
  CHECK(recipes[0].conversion.recipe.target_bytes == Recipe::kNaturalSize);
  CHECK(recipes[1].name == "w4a8@92MB");
  CHECK(recipes[1].conversion.recipe.scheme == "w4a8");
  CHECK(recipes[1].conversion.recipe.target_bytes == 92'000'000);
  CHECK(recipes[2].name == "w4a16@0.1GB");
  CHECK(recipes[2].conversion.recipe.target_bytes == 100'000'000);
  CHECK(recipes[3].name == "five_bits");
  CHECK(recipes[3].conversion.recipe.linears.bits == 5);
}

TEST_CASE("without flags there are no recipes") {
  CHECK(sweep_recipes({}).empty());
}

TEST_CASE("a preset sets the rounding of schemes, but not of recipes in files") {
  const test::TemporaryDirectory directory;
  const auto file = test::write_file(directory / "own.json", R"({"scheme": "w4a16", "rounding": "nearest"})");
  const std::vector<SweepRecipe> recipes =
      sweep_recipes({.schemes = {"w4a8", "bf16"}, .files = {file}, .preset = "best"});
  const Preset& best = preset_by_name("best");
  CHECK(recipes[0].conversion.recipe.rounding == best.rounding);
  CHECK(recipes[1].conversion.recipe.linears.kind == WeightFormat::Kind::kBF16);
  CHECK(recipes[2].conversion.recipe.rounding == Recipe::Rounding::kNearest);
  for (const SweepRecipe& recipe : recipes) CHECK(recipe.conversion.calibration.samples == best.samples);
}

TEST_CASE("invalid flags are wrong usage, and a bad file is a failure") {
  CHECK_THROWS_AS(sweep_recipes({.schemes = {"w3a3"}}), UsageError);
  CHECK_THROWS_AS(sweep_recipes({.schemes = {"w8a8@"}}), UsageError);
  CHECK_THROWS_AS(sweep_recipes({.schemes = {"w3a3@92MB"}}), UsageError);
  CHECK_THROWS_WITH_AS(sweep_recipes({.sizes = {"big"}}),
                       "--sizes: w4a16@big: 'big' must be a size like 92MB, 1.5GiB or a number of bytes", UsageError);
  CHECK_THROWS_AS(sweep_recipes({.files = {"no-such.json"}}), Error);
}

}  // namespace
}  // namespace ballast::tools
