// The precision of the samples' run while a model is rounded.
#include "quant/conversion/sample_precision.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <vector>

#include "fixed_recipe.h"
#include "model/source/model_source.h"
#include "quant/conversion/prepared_blocks.h"
#include "quant/write/ballast_format.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast::quant {
namespace {

TEST_CASE("samples run in F32 if the blocks have enough bits") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path path =
      test::random_model({.hidden = 256, .layers = 2, .mlp = 512}).write(directory / "model");
  const model::ModelSource source(path);
  const Recipe w4 = test::fixed_recipe("w4a16");
  const Recipe w8 = test::fixed_recipe("w8a8");
  const BallastFormat format(w4);
  const auto plan = [&](const Recipe& recipe) { return plan_model(Preparation(source, recipe, format)); };
  const auto precision = [&](const Recipe& recipe) { return sample_precision(recipe, plan(recipe), format); };

  CHECK(precision(w4) == SamplePrecision::kCoarse);
  CHECK(precision(w8) == SamplePrecision::kFine);

  Recipe mixed = w8;  // gate, up and down have two thirds of the weights of these blocks
  mixed.overrides = {{"mlp", w4.linears}};
  CHECK(precision(mixed) == SamplePrecision::kCoarse);
  Recipe large_embedding = w4;
  large_embedding.embedding = {.kind = WeightFormat::Kind::kF32};
  CHECK(precision(large_embedding) == SamplePrecision::kCoarse);

  Recipe sized = w4;
  sized.target_bytes = format.file_bytes(plan(w4));
  CHECK(precision(sized) == SamplePrecision::kCoarse);
  sized.target_bytes = format.file_bytes(plan(w8));
  CHECK(precision(sized) == SamplePrecision::kFine);
  sized = w8;
  sized.target_bytes = format.file_bytes(plan(w4));
  CHECK(precision(sized) == SamplePrecision::kCoarse);
}

}  // namespace
}  // namespace ballast::quant
