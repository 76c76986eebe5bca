#include "ballast/recipe.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "error_message.h"

namespace ballast {
namespace {

using test::Contains;
using test::error_message;

std::string refusal(const std::string& text) {
  return error_message([&] { parse_recipe(text, "r.json"); });
}

TEST_CASE("every scheme's recipe is restored from its JSON") {
  CHECK(scheme_names() == std::vector<std::string>{"f32", "bf16", "w8a16", "w8a8", "w4a16", "w4a8"});
  for (const std::string& scheme : scheme_names()) {
    CAPTURE(scheme);
    Recipe recipe = recipe_for_scheme(scheme);
    recipe.fold_norms = recipe.fold_biases = recipe.center_norms = false;
    recipe.equalize = recipe.smooth = recipe.rotate = recipe.rotate_values = recipe.untie_head = true;
    recipe.int16_activations_at_end = recipe.int16_activations_where_amplified = false;
    recipe.outlier_fraction = 0.03;
    recipe.int16_activation_fraction = 0.25;
    recipe.rounding = Recipe::Rounding::kScaleSearch;
    recipe.overrides = {{"down_proj$", parse_format("int8-channel-asym")}, {"^lm\"_head\\.", parse_format("f16")}};
    const std::string text = recipe_json(recipe);
    const Recipe back = parse_recipe(text, "r.json");
    CHECK(recipe_json(back) == text);
    CHECK(back.scheme == scheme);
    CHECK(!back.fold_norms);
    CHECK(!back.fold_biases);
    CHECK(!back.center_norms);
    CHECK(back.equalize);
    CHECK(back.smooth);
    CHECK(back.rotate);
    CHECK(back.rotate_values);
    CHECK(back.untie_head);
    CHECK(!back.int16_activations_at_end);
    CHECK(!back.int16_activations_where_amplified);
    CHECK(back.outlier_fraction == 0.03);
    CHECK(back.int16_activation_fraction == 0.25);
    CHECK(back.rounding == Recipe::Rounding::kScaleSearch);
    CHECK(back.linears == recipe.linears);
    CHECK(back.embedding == recipe.embedding);
    CHECK(back.head == recipe.head);
    CHECK(back.activations == recipe.activations);
    CHECK(back.activation_groups == recipe.activation_groups);
    REQUIRE(back.overrides.size() == 2);
    CHECK(back.overrides[1].pattern == "^lm\"_head\\.");
    CHECK(back.overrides[0].format == recipe.overrides[0].format);
  }
}

TEST_CASE("a recipe file gives only what differs from its scheme") {
  const Recipe recipe = parse_recipe(R"({"linears": "int4-g128", "scheme": "w4a8"})", "r.json");
  Recipe expected = recipe_for_scheme("w4a8");
  expected.linears = parse_format("int4-g128");
  expected.target_bytes = 0;  // formats that are named are those
  CHECK(recipe_json(recipe) == recipe_json(expected));
  CHECK(parse_recipe("{}", "r.json").scheme == "w8a8");
}

TEST_CASE("formats are chosen for the natural size unless they are named") {
  const auto target = [](const char* text) { return parse_recipe(text, "r.json").target_bytes; };
  CHECK(target("{}") == Recipe::kNaturalSize);
  CHECK(target(R"({"scheme": "f32"})") == 0);
  CHECK(target(R"({"smooth": false})") == Recipe::kNaturalSize);
  CHECK(target(R"({"outlier_fraction": 0})") == 0);
  CHECK(target(R"({"embedding": "int8-g64", "target_bytes": "natural"})") == Recipe::kNaturalSize);
  CHECK(target(R"({"embedding": "int8-g64", "target_bytes": 5})") == 5);
  const Recipe recipe = recipe_for_scheme("w4a8");
  CHECK(parse_recipe(recipe_json(recipe), "r.json").target_bytes == Recipe::kNaturalSize);
  CHECK(error_message([&] { target(R"({"target_bytes": "small"})"); }) == Contains("target_bytes"));
}

TEST_CASE("schemes have the formats of their names") {
  for (const std::string& scheme : scheme_names()) {
    const Recipe recipe = recipe_for_scheme(scheme);
    CHECK((recipe.fold_norms && recipe.fold_biases && recipe.center_norms));
    CHECK(!(recipe.equalize || recipe.rotate || recipe.rotate_values || recipe.untie_head));
    const bool integers = recipe.linears.is_integer();
    CHECK(recipe.smooth == integers);
    CHECK((recipe.rounding == Recipe::Rounding::kGptq) == integers);
    if (scheme == "f32" || scheme == "bf16") {
      CHECK(format_name(recipe.linears) == scheme);
      CHECK(recipe.outlier_fraction == 0);
      continue;
    }
    CHECK(recipe.linears.bits == scheme[1] - '0');
    CHECK(recipe.embedding.bits == 8);
    CHECK(recipe.head.bits == 8);
    CHECK((recipe.activations == ActivationType::kInt8) == (scheme.ends_with("a8")));
  }
}

TEST_CASE("every format is found by its name") {
  for (const char* name : {"f32", "f16", "bf16", "int8-g32", "int8-g64-asym", "int8-channel", "int4-g32-asym",
                           "int4-g128", "int4-channel-asym", "int5-g64-s8", "int4-g32-asym-s8", "nl2-g64-s8", "nl3-g32",
                           "nl4-g32", "nl5-g128-s8", "nl7-g64-s8"}) {
    CHECK(format_name(parse_format(name)) == name);
  }
  for (const char* name : {"", "int8", "int3-g32", "int8-g16", "int8-g032", "int8-g32-sym", "INT8-g32", "f32 ",
                           "int8-channel-s8", "int4-g32-s8-asym", "int4-g32-s16"}) {
    CAPTURE(name);
    CHECK(error_message([&] { parse_format(name); }) ==
          Contains("format '" + std::string(name) +
                   "': unknown; there are f32, f16, bf16 and int8, int6, int5 or int4 with -g32"));
  }
}

TEST_CASE("unknown fields and values of a recipe are refused by name") {
  CHECK(refusal(R"({"liners": "int8-g32"})") == "r.json: unknown field 'liners' in the recipe");
  CHECK(refusal(R"({"scheme": "w2a2"})") == "scheme 'w2a2': unknown; there are f32, bf16, w8a16, w8a8, w4a16, w4a8");
  CHECK(refusal(R"({"head": "int3-g32"})") == Contains("format 'int3-g32': unknown"));
  CHECK(refusal(R"({"rounding": "up"})") == "r.json: rounding: 'up' is unknown; there are nearest, search, gptq");
  CHECK(refusal(R"({"activations": "int4"})") == R"(r.json: activations: must be "float" or "int8", is "int4")");
  CHECK(refusal(R"({"exceptions": [{"pattern": "a", "format": "f16", "bits": 3}]})") ==
        Contains("r.json: exceptions[0]: only 'pattern' and 'format' may be in {\"bits\":3"));
}

TEST_CASE("an invalid regular expression is refused") {
  CHECK(refusal(R"({"exceptions": [{"pattern": "layers\\.(0|1", "format": "f16"}]})") ==
        Contains("r.json: exceptions[0]: 'layers\\.(0|1' is not a regular expression: "));
}

TEST_CASE("a field of a wrong type or range is refused") {
  CHECK(refusal("") == Contains("r.json: byte 0: not valid JSON"));
  CHECK(refusal("[]") == "r.json: must be an object, is []");
  CHECK(refusal(R"({"scheme": 8})") == "r.json: scheme: must be a string, is 8");
  CHECK(refusal(R"({"fold_norms": 1})") == "r.json: fold_norms: must be true or false, is 1");
  CHECK(refusal(R"({"exceptions": [{"pattern": "a"}]})") == "r.json: exceptions[0].format: missing");
  CHECK(refusal(R"({"exceptions": {"pattern": "a", "format": "f16"}})") ==
        Contains("r.json: exceptions: must be a list"));
  CHECK(refusal(R"({"outlier_fraction": 0.6})") == "r.json: outlier_fraction: must be between 0 and 0.5, is 0.6");
  CHECK(refusal(R"({"wide_fraction": 1.5})") == "r.json: wide_fraction: must be between 0 and 1.0, is 1.5");
  CHECK(refusal(R"({"outlier_fraction": -0.1})") == Contains("must be between 0 and 0.5"));
}

}  // namespace
}  // namespace ballast
