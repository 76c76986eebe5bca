#include "tools/flags/recipe_flags.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "ballast/error.h"
#include "tools/flags/option_checks.h"

namespace ballast::tools {
namespace {

TEST_CASE("without flags the recipe is the scheme's") {
  RecipeFlags flags;
  flags.scheme = "w4a16";
  CHECK(recipe_json(recipe_from_flags(flags)) == recipe_json(recipe_for_scheme("w4a16")));
}

TEST_CASE("flags change only the fields that they name") {
  RecipeFlags flags;
  flags.bits = 4;
  flags.group_size = "channel";
  flags.asymmetric = true;
  flags.rounding = "search";
  flags.outliers = "1.5%";
  flags.activation_scales = "token";
  flags.embedding = "bf16";
  flags.head = "int8-g64";
  flags.formats = {"down=proj=int8-g32", "^x=f16"};
  flags.no_fold_norms = flags.no_fold_biases = flags.no_center_norms = true;
  flags.equalize = flags.smooth = flags.rotate = flags.rotate_values = flags.untie_head = true;

  Recipe expected = recipe_for_scheme("w8a8");
  expected.target_bytes = 0;
  expected.linears = parse_format("int4-channel-asym");
  expected.rounding = Recipe::Rounding::kScaleSearch;
  expected.outlier_fraction = 0.015;
  expected.activation_groups = false;
  expected.embedding = parse_format("bf16");
  expected.head = parse_format("int8-g64");
  expected.overrides = {{"down=proj", parse_format("int8-g32")}, {"^x", parse_format("f16")}};
  expected.fold_norms = expected.fold_biases = expected.center_norms = false;
  expected.equalize = expected.smooth = expected.rotate = expected.rotate_values = expected.untie_head = true;
  CHECK(recipe_json(recipe_from_flags(flags)) == recipe_json(expected));
}

TEST_CASE("scales of 8 bits are for groups") {
  RecipeFlags flags;
  flags.scale_bits = 8;
  CHECK(recipe_from_flags(flags).linears == parse_format("int8-g64-s8"));
  flags.group_size = "channel";
  CHECK_THROWS_AS(recipe_from_flags(flags), UsageError);
}

TEST_CASE("flags override a recipe file, and their format overrides come first") {
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "ballast_recipe_flags_test.json";
  Recipe written = recipe_for_scheme("w4a16");
  written.overrides = {{"proj", parse_format("int8-g32")}};
  std::ofstream(file) << recipe_json(written);

  RecipeFlags flags;
  flags.file = file;
  flags.outliers = "none";
  flags.formats = {"down=bf16"};
  const Recipe recipe = recipe_from_flags(flags);
  std::filesystem::remove(file);

  written.outlier_fraction = 0;
  written.target_bytes = 0;  // a named share is not chosen
  written.overrides.insert(written.overrides.begin(), {"down", parse_format("bf16")});
  CHECK(recipe_json(recipe) == recipe_json(written));
}

TEST_CASE("shares are none or percentages") {
  CHECK(parse_share("--outliers", "none", 50) == 0);
  CHECK(parse_share("--outliers", "0%", 50) == 0);
  CHECK(parse_share("--outliers", "1.5%", 50) == doctest::Approx(0.015));
  CHECK(parse_share("--wide-inputs", "51%", 100) == doctest::Approx(0.51));
  for (const char* text : {"", "%", "1.5", "-1%", "51%", "nan%", "1%%", "one%", "1 %"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_share("--outliers", text, 50), UsageError);
  }
}

TEST_CASE("formats are still chosen if a share of inputs in 16 bits is given") {
  RecipeFlags flags;
  flags.int16_activation_fraction = "30%";
  const Recipe recipe = recipe_from_flags(flags);
  CHECK(recipe.int16_activation_fraction == doctest::Approx(0.3));
  CHECK(recipe.target_bytes == Recipe::kNaturalSize);
}

TEST_CASE("format overrides without a pattern, with an invalid one or with an unknown format are refused") {
  for (const char* text : {"", "down_proj", "=bf16", "a(=bf16", "a=int3", "a="}) {
    CAPTURE(text);
    RecipeFlags flags;
    flags.formats = {text};
    CHECK_THROWS_AS(recipe_from_flags(flags), UsageError);
  }
}

TEST_CASE("flags that do not apply to a scheme are refused") {
  RecipeFlags bits;
  bits.scheme = "bf16";
  bits.bits = 4;
  CHECK_THROWS_AS(recipe_from_flags(bits), UsageError);
  RecipeFlags groups;
  groups.scheme = "w8a16";
  groups.activation_scales = "group";
  CHECK_THROWS_AS(recipe_from_flags(groups), UsageError);
  RecipeFlags floats;
  floats.scheme = "w4a16";
  floats.int16_activation_fraction = "30%";
  CHECK_THROWS_AS(recipe_from_flags(floats), UsageError);
  RecipeFlags named;
  named.group_size = "64";
  named.int16_activation_fraction = "30%";
  CHECK_THROWS_AS(recipe_from_flags(named), UsageError);
  RecipeFlags unknown;
  unknown.scheme = "w2a2";
  CHECK_THROWS_AS(recipe_from_flags(unknown), UsageError);
  RecipeFlags missing;
  missing.file = "/nonexistent/recipe.json";
  CHECK_THROWS_AS(recipe_from_flags(missing), Error);
}

TEST_CASE("numbers are checked to their last character") {
  CHECK(whole_number(1, 8)("8") == "");
  for (const char* text : {"", "0", "9", "-1", "1x", " 1", "1.5", "99999999999999999999"}) {
    CAPTURE(text);
    CHECK(whole_number(1, 8)(text) != "");
  }
  const OptionCheck positive = real_number([](double value) { return value > 0; }, "above 0");
  CHECK(positive("1e-3") == "");
  for (const char* text : {"", "0", "nan", "inf", "1e999", "1,5"}) {
    CAPTURE(text);
    CHECK(positive(text) != "");
  }
}

}  // namespace
}  // namespace ballast::tools
