// Checks what is known of a conversion before any weight is read.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <string>

#include "ballast/convert.h"
#include "error_message.h"
#include "fixed_recipe.h"
#include "quant/search/candidates.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast {
namespace {

using test::Contains;
using test::error_message;
using test::golden_model;
using test::TemporaryDirectory;
namespace fs = std::filesystem;

ConvertOptions small_options(const std::string& scheme) {
  ConvertOptions options;
  options.recipe = test::fixed_recipe(scheme);
  options.calibration.samples = 8;
  options.calibration.length = 16;
  return options;
}

/// Writes a model of which every value is NaN, so that reading one is an error.
fs::path unreadable_model(const fs::path& directory) {
  test::TinyModel model = test::random_model({.hidden = 64, .layers = 3, .mlp = 96});
  for (auto& [name, tensor] : model.tensors) {
    for (float& value : tensor.values) value = std::numeric_limits<float>::quiet_NaN();
  }
  return model.write(directory);
}

TEST_CASE("planning reads no values of the model") {
  const TemporaryDirectory directory;
  const fs::path model = unreadable_model(directory / "model");
  for (const std::string& scheme : scheme_names()) {
    CAPTURE(scheme);
    ConvertOptions options = small_options(scheme);
    const ConvertPlan plan = plan_conversion(model, options);
    CHECK(plan.least_bytes > 0);
    CHECK(plan.least_bytes == plan.most_bytes);
    // This checks that reading the values is indeed an error.
    CHECK(error_message([&] { convert(model, directory / "out", options); }) ==
          Contains("model.embed_tokens.weight: "));
    if (!options.recipe.linears.is_integer()) continue;

    options.recipe.target_bytes = plan.least_bytes + 1;
    const ConvertPlan chosen = plan_conversion(model, options);
    CHECK(chosen.least_bytes < chosen.most_bytes);
    CHECK(chosen.most_bytes <= options.recipe.target_bytes);
    CHECK(chosen.calibrates);
    REQUIRE(chosen.job.has_value());
    CHECK(chosen.job->seconds > 0);
  }
}

TEST_CASE("a plan has the sizes of the conversion that follows") {
  for (const char* golden : {"llama3", "gpt2", "deepseek_v3", "bert"}) {
    for (const char* scheme : {"f32", "w8a16", "w4a8"}) {
      CAPTURE(golden);
      CAPTURE(scheme);
      const TemporaryDirectory directory;
      const ConvertOptions options = small_options(scheme);
      const ConvertPlan plan = plan_conversion(golden_model(golden), options);
      const ConvertReport report = convert(golden_model(golden), directory / "out", options);
      CHECK(plan.bytes_before == report.bytes_before);
      CHECK(plan.least_bytes == report.bytes_after);
      REQUIRE(plan.groups.size() == report.groups.size());
      for (std::size_t i = 0; i < plan.groups.size(); ++i) {
        CAPTURE(plan.groups[i].name);
        CHECK(plan.groups[i].name == report.groups[i].name);
        CHECK(plan.groups[i].format == report.groups[i].format);
        CHECK(plan.groups[i].tensors == report.groups[i].tensors);
        CHECK(plan.groups[i].weights == report.groups[i].weights);
        CHECK(plan.groups[i].bytes_before == report.groups[i].bytes_before);
        CHECK(plan.groups[i].least_bytes == report.groups[i].bytes_after);
      }
    }
  }
}

TEST_CASE("scales that need BF16 are written, although the plan assumed F16") {
  // The long names of tensors make the header longer than planned.
  const TemporaryDirectory directory;
  test::TinyModel model = test::random_model({.layers = 12});
  for (auto& [name, tensor] : model.tensors) {
    if (name.find("proj") == std::string::npos) continue;
    for (float& value : tensor.values) value *= 1e-5F;
  }
  const fs::path path = model.write(directory / "model");
  ConvertOptions options = small_options("w4a16");
  options.recipe.rounding = Recipe::Rounding::kNearest;
  options.recipe.smooth = false;
  const ConvertReport report = convert(path, directory / "out", options);
  CHECK(report.bytes_after > plan_conversion(path, options).least_bytes);
  CHECK(report.bytes_after == fs::file_size(directory / "out" / "model.safetensors"));
  const auto converted = files::open_checkpoint(directory / "out");
  CHECK(converted->tensor("model.layers.2.mlp.up_proj.weight_scale").dtype == DType::kBF16);
  CHECK(converted->tensor("lm_head.weight_scale").dtype == DType::kF16);
  CHECK_NOTHROW(converted->verify_checksums());
}

TEST_CASE("a target size that no formats can reach is refused before any value is read") {
  const TemporaryDirectory directory;
  const fs::path model = unreadable_model(directory / "model");
  ConvertOptions options = small_options("w4a16");
  options.recipe.target_bytes = 1'000'000;
  const std::uint64_t least = plan_conversion(model, options).least_bytes;
  options.recipe.target_bytes = least - 1;
  const std::string refusal = "target size: " + std::to_string(least - 1) +
                              " bytes are too few: with the smallest formats the model takes " + std::to_string(least);
  CHECK(error_message([&] { plan_conversion(model, options); }) == refusal);
  CHECK(error_message([&] { convert(model, directory / "out", options); }) == refusal);
}

TEST_CASE("the possible target sizes are those of the smallest and the largest formats") {
  ConvertOptions options = small_options("w4a16");
  options.recipe.target_bytes = 1'000'000'000;
  const ConvertPlan plan = plan_conversion(golden_model("llama3"), options);
  const TemporaryDirectory directory;
  const WeightFormat fewest_bits = codebook_format(kCodebooks.front().id, 128, 8);
  for (const auto& [format, bytes] :
       {std::pair{fewest_bits, plan.least_bytes}, std::pair{parse_format("int8-g32-s8"), plan.most_bytes}}) {
    ConvertOptions fixed = small_options("w4a16");
    fixed.recipe.outlier_fraction = 0;
    fixed.recipe.linears = fixed.recipe.embedding = fixed.recipe.head = format;
    CHECK(convert(golden_model("llama3"), directory / format_name(format), fixed).bytes_after == bytes);
  }
}

}  // namespace
}  // namespace ballast
