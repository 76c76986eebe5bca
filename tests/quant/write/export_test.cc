// Exports of ballast's models to files of other programs, with the same values.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "ballast/convert.h"
#include "error_message.h"
#include "file_bytes.h"
#include "fixed_recipe.h"
#include "model/source/model_source.h"
#include "model_logits.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "tiny_tokenizer.h"

namespace ballast::quant {
namespace {

using test::Contains;
using test::distance;
using test::error_message;
using test::logits_of;
using test::TemporaryDirectory;
namespace fs = std::filesystem;

test::TinyModel llama() {
  test::TinyModel model =
      test::random_model({.hidden = 128, .heads = 4, .kv_heads = 2, .head_size = 32, .mlp = 192, .weights = 0.03F});
  model.tokenizer = test::tiny_tokenizer_json();
  return model;
}

/// Returns a recipe with one format for all linears and float activations, because INT8 ones would change the logits.
Recipe recipe_of(const std::string& linears, const std::string& embedding = "f32") {
  Recipe recipe = test::fixed_recipe("w4a16");
  recipe.rounding = Recipe::Rounding::kScaleSearch;
  recipe.linears = parse_format(linears);
  recipe.embedding = recipe.head = parse_format(embedding);
  recipe.outlier_fraction = 0;
  recipe.smooth = false;
  return recipe;
}

/// Returns the path of llama() converted by `recipe`.
fs::path converted(const TemporaryDirectory& directory, const Recipe& recipe, const std::string& name) {
  const fs::path original = llama().write(directory / (name + "-original"));
  ConvertOptions options{.recipe = recipe};
  options.calibration.samples = 4;
  options.calibration.length = 16;
  convert(original, directory / name, options);
  return directory / name;
}

std::string refusal(const fs::path& model, const fs::path& out, OutputFormat format) {
  return error_message([&] { export_model(model, out, {.output_format = format}); });
}

TEST_CASE("symmetric integers are exported exactly to other programs' files") {
  struct Case {
    OutputFormat to;
    const char* linears;
    const char* embedding;
    const char* becomes;
  };
  const TemporaryDirectory directory;
  int number = 0;
  for (const Case& c :
       {Case{OutputFormat::kGguf, "int4-g32", "int8-g64", "Q4_0"},
        Case{OutputFormat::kGguf, "int5-g64", "int8-channel", "Q5_0"},
        Case{OutputFormat::kGguf, "int8-g32-s8", "f16", "Q8_0"}, Case{OutputFormat::kGguf, "bf16", "bf16", "BF16"},
        Case{OutputFormat::kCompressedTensors, "int4-g64", "f32", "int4-g64"},
        Case{OutputFormat::kCompressedTensors, "int6-g32", "f32", "int6-g32"},
        Case{OutputFormat::kMlx, "int4-g64", "int8-g32", "affine4-g64"},
        Case{OutputFormat::kAwq, "int4-g32-asym", "f32", "int4-g32-asym"},
        Case{OutputFormat::kAwq, "int4-g64", "f32", "int4-g64-asym"},
        Case{OutputFormat::kGptq, "int8-g64", "f32", "int8-g64"}}) {
    CAPTURE(output_format_name(c.to));
    CAPTURE(c.linears);
    const std::string name = std::to_string(number++);
    const fs::path model = converted(directory, recipe_of(c.linears, c.embedding), name);
    const fs::path out = directory / (name + ".out");
    const ConvertReport report = export_model(model, out, {.output_format = c.to});
    CHECK(report.bytes_after == fs::file_size(c.to == OutputFormat::kGguf ? out : out / "model.safetensors"));
    CHECK(distance(logits_of(out), logits_of(model)) <= 1e-4);  // inputs of integer matrices have 16 bits
    std::size_t matrices = 0;
    for (const TensorGroupReport& group : report.groups) {
      if (group.name.ends_with("up_proj")) {
        CHECK(group.format == c.becomes);
        ++matrices;
      }
    }
    CHECK(matrices == 1);
  }
}

TEST_CASE("parts that a format cannot store exactly are refused, and no files remain") {
  const TemporaryDirectory directory;
  const fs::path out = directory / "out";
  const fs::path asymmetric = converted(directory, recipe_of("int4-g32-asym"), "asymmetric");
  CHECK(refusal(asymmetric, out, OutputFormat::kGguf) ==
        Contains("is int4-g32-asym, which gguf cannot hold exactly: round the original instead, `ballast convert"));
  CHECK(refusal(asymmetric, out, OutputFormat::kMlx) == Contains("which mlx cannot hold exactly"));
  CHECK(refusal(asymmetric, out, OutputFormat::kGptq) == Contains("which gptq cannot hold exactly"));
  const fs::path small = converted(directory, recipe_of("int6-g32", "int8-g32"), "small");
  CHECK(refusal(small, out, OutputFormat::kGguf) == Contains("is int6-g32"));
  CHECK(refusal(small, out, OutputFormat::kCompressedTensors) == Contains("embed_tokens: is int8-g32"));
  Recipe outliers = recipe_of("int8-g32");
  outliers.activations = ActivationType::kInt8;
  outliers.outlier_fraction = 0.02;
  CHECK(refusal(converted(directory, outliers, "outliers"), out, OutputFormat::kGguf) ==
        Contains("with columns in 16 bits"));
  Recipe prefixed = recipe_of("int8-g32");
  prefixed.prefix.tokens = std::vector<int>{1};
  CHECK(refusal(converted(directory, prefixed, "prefixed"), out, OutputFormat::kGguf) == Contains("prefix"));
  // Gains and smoothed values have more digits than the type of the embedding.
  Recipe digits = recipe_of("int8-g32", "bf16");
  digits.smooth = true;
  CHECK(refusal(converted(directory, digits, "digits"), out, OutputFormat::kGptq) ==
        Contains("has values, which gptq cannot hold exactly"));
  CHECK(!fs::exists(out));
}

TEST_CASE("models that ballast did not write, or with folds that other programs lack, are refused") {
  const TemporaryDirectory directory;
  const fs::path out = directory / "out";
  CHECK(refusal(llama().write(directory / "original"), out, OutputFormat::kGguf) ==
        Contains("is no model that ballast wrote"));
  CHECK(refusal(converted(directory, recipe_of("int8-g32"), "own"), out, OutputFormat::kBallast) ==
        Contains("is ballast's own already"));
  test::TinyModel biased = test::read_model(test::golden_model("qwen2"));
  biased.config.erase("use_sliding_window");
  biased.config.erase("layer_types");
  biased.config["sliding_window"] = nullptr;
  ConvertOptions options{.recipe = recipe_for_scheme("f32")};
  convert(biased.write(directory / "biased"), directory / "folded", options);
  CHECK(refusal(directory / "folded", out, OutputFormat::kGguf) == Contains("biases that its family has not"));
  options.recipe.fold_biases = false;
  convert(directory / "biased", directory / "kept", options);
  export_model(directory / "kept", out, {.output_format = OutputFormat::kGguf});
  CHECK(distance(logits_of(out), logits_of(directory / "kept")) <= 1e-5);
}

TEST_CASE("an exported output is replaced only if requested") {
  const TemporaryDirectory directory;
  const fs::path model = converted(directory, recipe_of("int8-g32"), "model");
  const fs::path out = directory / "m.gguf";
  export_model(model, out, {});
  const std::string first = test::read_file(out);
  CHECK(refusal(model, out, OutputFormat::kGguf) == Contains("exists"));
  export_model(model, out, {.replace = true});
  CHECK(test::read_file(out) == first);
}

}  // namespace
}  // namespace ballast::quant
