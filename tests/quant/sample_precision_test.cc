// Where samples may run in BF16 while a model is rounded.
#include "quant/conversion/sample_precision.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <vector>

#include "fixed_recipe.h"
#include "model/source/model_source.h"
#include "quant/prepared_blocks.h"
#include "quant/write/ballast_format.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast::quant {
namespace {

TEST_CASE("samples run in BF16 where blocks have fewer bits than it rounds to") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path path =
      test::random_model({.hidden = 256, .layers = 2, .mlp = 512}).write(directory / "model");
  const model::ModelSource source(path);
  const Recipe w4 = test::fixed_recipe("w4a16");
  const Recipe w8 = test::fixed_recipe("w8a8");
  const BallastFormat format(w4);
  const auto plan = [&](const Recipe& recipe) { return plan_model({.source = source, .recipe = recipe}); };
  const auto exact = [&](const Recipe& recipe) { return bf16_is_exact_enough(recipe, plan(recipe), format); };

  CHECK(exact(w4));
  CHECK_FALSE(exact(w8));

  Recipe mixed = w8;  // gate, up and down are two thirds of these blocks
  mixed.exceptions = {{"mlp", w4.linears}};
  CHECK(exact(mixed));
  Recipe large_embedding = w4;
  large_embedding.embedding = {.kind = WeightFormat::Kind::kF32};
  CHECK(exact(large_embedding));

  Recipe sized = w4;
  sized.target_bytes = format.file_bytes(plan(w4));
  CHECK(exact(sized));
  sized.target_bytes = format.file_bytes(plan(w8));
  CHECK_FALSE(exact(sized));
  sized = w8;
  sized.target_bytes = format.file_bytes(plan(w4));
  CHECK(exact(sized));
}

}  // namespace
}  // namespace ballast::quant
