// Conversions that are stopped and resumed.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ballast/convert.h"
#include "file_bytes.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast {
namespace {

using test::golden_model;
using test::TemporaryDirectory;

TEST_CASE(
    "a conversion that goes on ends with the same bytes, with a tied head and where blocks read the tokens, too") {
  for (const char* golden : {"llama3", "llama", "gemma4_text"}) {
    CAPTURE(golden);
    for (const std::uint64_t target : {std::uint64_t{0}, Recipe::kNaturalSize}) {
      CAPTURE(target);
      const TemporaryDirectory directory;
      ConvertOptions options{.recipe = recipe_for_scheme("w4a8")};
      options.recipe.target_bytes = target;
      options.calibration.samples = 8;
      options.calibration.length = 16;
      convert(golden_model(golden), directory / "undisturbed", options);
      struct Cancelled {};
      std::size_t stop = 1;
      const auto cancel = [&](std::string_view stage, std::size_t done, std::size_t) {
        if (stage == "converting" && done == stop) throw Cancelled{};
      };
      for (; stop <= 3; ++stop) {
        CHECK_THROWS_AS(convert(golden_model(golden), directory / "out", options, cancel), Cancelled);
      }
      convert(golden_model(golden), directory / "out", options);
      CHECK(test::read_file(directory / "out" / "model.safetensors") ==
            test::read_file(directory / "undisturbed" / "model.safetensors"));
    }
  }
}

}  // namespace
}  // namespace ballast
