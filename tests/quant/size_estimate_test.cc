#include "quant/search/size_estimate.h"

#include <doctest/doctest.h>

#include <string>

#include "ballast/convert.h"
#include "model/source/model_source.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast {
namespace {

// Of the matrices that a conversion writes, by what it says of them.
std::uint64_t converted_bytes(const std::string& golden, const Recipe& recipe) {
  const test::TemporaryDirectory directory;
  ConvertOptions options;
  options.recipe = recipe;
  options.calibration.samples = 2;
  options.calibration.length = 16;
  std::uint64_t bytes = 0;
  for (const TensorGroupReport& group : convert(test::golden_model(golden), directory / "out", options).groups) {
    const bool norm = group.name.find("norm") != std::string::npos || group.name.find("ln_") != std::string::npos;
    if (!norm) bytes += group.bytes_after;
  }
  return bytes;
}

TEST_CASE("what a conversion will take is known from shapes, also where a router makes all but the experts finer") {
  for (const char* golden : {"llama3", "gpt2", "deepseek_v2", "deepseek_v3"}) {
    const model::ModelSource source(test::golden_model(golden));
    for (const char* scheme : {"w8a8", "w4a16"}) {
      CAPTURE(golden);
      CAPTURE(scheme);
      Recipe recipe = recipe_for_scheme(scheme);
      recipe.rounding = Recipe::Rounding::kNearest;
      const auto expected = static_cast<double>(quant::estimated_bytes(recipe, source.spec()));
      CHECK(expected == doctest::Approx(static_cast<double>(converted_bytes(golden, recipe))).epsilon(0.05));
    }
  }
}

}  // namespace
}  // namespace ballast
