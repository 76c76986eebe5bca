// Whole conversions that choose formats and round with samples.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/calibrate.h"
#include "ballast/convert.h"
#include "ballast/statistics.h"
#include "described.h"
#include "error_message.h"
#include "file_bytes.h"
#include "files/checkpoint.h"
#include "model/source/model_source.h"
#include "model_logits.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast {
namespace {

using test::Contains;
using test::distance;
using test::error_message;
using test::files_of;
using test::golden_model;
using test::logits_of;
using test::TemporaryDirectory;
namespace fs = std::filesystem;

ConvertOptions short_options(const std::string& scheme, std::uint64_t target_bytes) {
  ConvertOptions options;
  options.recipe = recipe_for_scheme(scheme);
  options.recipe.target_bytes = target_bytes;
  options.calibration.samples = 8;
  options.calibration.length = 16;
  return options;
}

std::uint64_t size_of(const std::string& golden, const std::string& linears) {
  const TemporaryDirectory directory;
  ConvertOptions options = short_options("w8a16", 0);
  options.recipe.rounding = Recipe::Rounding::kNearest;
  options.recipe.outlier_fraction = 0;
  options.recipe.linears = options.recipe.embedding = options.recipe.head = parse_format(linears);
  return convert(golden_model(golden), directory / "out", options).bytes_after;
}

TEST_CASE("a target size is not exceeded, and a larger one reduces the error") {
  for (const char* golden : {"llama3", "gpt2", "llama"}) {
    CAPTURE(golden);
    const std::uint64_t least = size_of(golden, "int5-g64");
    const std::uint64_t most = size_of(golden, "int8-g32");
    double before = 1e30;
    for (const double share : {0.7, 0.85, 0.97}) {
      CAPTURE(share);
      const TemporaryDirectory directory;
      const std::uint64_t target = least + static_cast<std::uint64_t>(share * static_cast<double>(most - least));
      const ConvertReport report = convert(golden_model(golden), directory / "out", short_options("w4a16", target));
      CHECK(report.bytes_after <= target);
      CHECK(static_cast<double>(report.bytes_after) >= 0.9 * static_cast<double>(target));
      CHECK(report.bytes_after == fs::file_size(directory / "out" / "model.safetensors"));
      REQUIRE(report.divergence.has_value());
      CHECK(*report.divergence > 0);
      const double error = distance(logits_of(directory / "out"), logits_of(golden_model(golden)));
      CHECK(error < before);
      before = error;
    }
  }
}

TEST_CASE("conversions that differ only in size share the costs of formats, and write the same files as without") {
  const TemporaryDirectory directory;
  const auto bytes_of = [&](const ConvertOptions& options, std::size_t& weighings) {
    bool weighs = false;
    const Progress watch = [&](std::string_view stage, std::size_t, std::size_t) {
      weighs |= stage == "weighing formats";
    };
    ConvertOptions replacing = options;
    replacing.replace = true;
    convert(golden_model("llama"), directory / "out", replacing, watch);
    weighings += weighs ? 1 : 0;
    return test::read_file(directory / "out" / "model.safetensors");
  };
  const std::shared_ptr<FormatCosts> costs = make_format_costs();
  std::size_t alone = 0;
  std::size_t shared = 0;
  ConvertOptions options = short_options("w4a16", Recipe::kNaturalSize);
  for (const std::uint64_t target : {Recipe::kNaturalSize, std::uint64_t{38'000}, std::uint64_t{36'000}}) {
    options.recipe.target_bytes = target;
    options.format_costs = nullptr;
    const std::string expected = bytes_of(options, alone);
    options.format_costs = costs;
    CHECK(bytes_of(options, shared) == expected);
  }
  CHECK(alone == 3);
  CHECK(shared == 1);
  options.recipe.int16_activation_fraction = 0.5;
  bytes_of(options, shared);
  CHECK(shared == 1);
  options.recipe.smooth = false;  // smoothing would change the costs of formats
  bytes_of(options, shared);
  CHECK(shared == 2);
}

TEST_CASE("the more inputs may keep 16 bits, the smaller the error of INT8 activations") {
  std::vector<double> errors;
  std::size_t inputs = 0;
  for (const double fraction : {0.0, 0.5, 1.0}) {
    CAPTURE(fraction);
    const TemporaryDirectory directory;
    ConvertOptions options = short_options("w8a8", Recipe::kNaturalSize);
    options.recipe.int16_activation_fraction = fraction;
    convert(golden_model("llama"), directory / "out", options);
    errors.push_back(distance(logits_of(directory / "out"), logits_of(golden_model("llama"))));
    const std::size_t wide = model::ModelSource(directory / "out").quantization()->int16_activation_modules.size();
    CHECK((fraction == 0 || wide > inputs));
    inputs = wide;
  }
  CHECK(errors[1] < errors[0]);
  CHECK(errors[2] < 1.02 * errors[1]);  // the last inputs matter little: what is left is mostly the weights' error
}

TEST_CASE("a target size that is too small is refused, and the error has the smallest possible one") {
  const TemporaryDirectory directory;
  CHECK(error_message([&] { convert(golden_model("llama3"), directory / "out", short_options("w4a16", 1000)); }) ==
        Contains("target size"));
  CHECK_FALSE(fs::exists(directory / "out"));
}

TEST_CASE("formats given by name are kept with a target size") {
  const TemporaryDirectory directory;
  ConvertOptions options = short_options("w4a8", size_of("llama3", "int8-g64"));
  options.recipe.overrides = {{"\\.1\\..*down_proj", parse_format("int8-channel")}};
  const ConvertReport report = convert(golden_model("llama3"), directory / "out", options);
  CHECK(test::read_file(directory / "out" / "config.json").find("\"model.layers.1.mlp.down_proj\": \"int8-channel\"") !=
        std::string::npos);
}

TEST_CASE("with the natural size nothing is searched if all formats are given by name") {
  const TemporaryDirectory directory;
  ConvertOptions options = short_options("w4a8", Recipe::kNaturalSize);
  options.recipe.overrides = {{".*", parse_format("int8-g32")}};
  const ConvertReport report = convert(golden_model("llama3"), directory / "out", options);
  CHECK_FALSE(report.divergence.has_value());
  CHECK(plan_conversion(golden_model("llama3"), options).least_bytes == report.bytes_after);
}

TEST_CASE("rounding with samples has a smaller error than rounding to nearest") {
  for (const char* golden : {"llama3", "qwen2"}) {
    CAPTURE(golden);
    std::map<Recipe::Rounding, double> errors;
    for (const Recipe::Rounding rounding : {Recipe::Rounding::kNearest, Recipe::Rounding::kGptq}) {
      const TemporaryDirectory directory;
      ConvertOptions options = short_options("w4a16", 0);
      options.calibration.samples = 64;
      options.recipe.rounding = rounding;
      convert(golden_model(golden), directory / "out", options);
      errors[rounding] = distance(logits_of(directory / "out"), logits_of(golden_model(golden)));
    }
    CHECK(errors[Recipe::Rounding::kGptq] < errors[Recipe::Rounding::kNearest]);
  }
}

struct Stopped {};

/// Runs a conversion until the `last`-th step that it reports; returns whether it was stopped there.
bool convert_until(std::size_t last, const fs::path& out, const ConvertOptions& options) {
  std::size_t steps = 0;
  try {
    convert(golden_model("llama3"), out, options, [&](std::string_view, std::size_t, std::size_t) {
      if (++steps == last) throw Stopped{};
    });
  } catch (const Stopped&) {
    return true;
  }
  return false;
}

/// Stops a conversion at its steps `first`, `first + stride`, ..., each time from the beginning, and resumes it until
/// it is complete.
void stop_and_go_on(Recipe::Rounding rounding, std::size_t first, std::size_t stride) {
  ConvertOptions options = short_options("w4a8", size_of("llama3", "int8-g64"));
  options.recipe.rounding = rounding;
  const TemporaryDirectory directory;
  convert(golden_model("llama3"), directory / "whole", options);
  std::size_t step = first;
  for (;; step += stride) {
    CAPTURE(step);
    const fs::path out = directory / ("out" + std::to_string(step));
    if (!convert_until(step, out, options)) break;
    CHECK_FALSE(fs::exists(out));
    convert(golden_model("llama3"), out, options);
    CHECK(files_of(out) == files_of(directory / "whole"));
  }
  CHECK(step > 10);
  // No other files remain next to the outputs.
  for (const auto& entry : fs::directory_iterator(directory / ".")) {
    CHECK(entry.path().filename().string().front() != '.');
  }
}

// The strides of the two tests have no common divisor, so that they stop at different steps.
TEST_CASE("a stopped conversion resumes and gives the same files") {
  stop_and_go_on(Recipe::Rounding::kGptq, 1, 5);
}

TEST_CASE("a stopped conversion that rounds without samples resumes and gives the same files") {
  stop_and_go_on(Recipe::Rounding::kScaleSearch, 3, 7);
}

TEST_CASE("a conversion that is stopped repeatedly gives the same files") {
  ConvertOptions options = short_options("w4a8", size_of("llama3", "int8-g64"));
  const TemporaryDirectory directory;
  convert(golden_model("llama3"), directory / "whole", options);
  const fs::path out = directory / "out";
  std::size_t stops = 0;
  for (std::size_t step = 1; convert_until(step, out, options); step += 2) ++stops;
  CHECK(stops > 5);
  CHECK(files_of(out) == files_of(directory / "whole"));
}

TEST_CASE("with sums in fixed order, few samples give nearly the same error") {
  // The first shards are empty.
  double errors[2];
  for (const bool deterministic : {false, true}) {
    const TemporaryDirectory directory;
    ConvertOptions options = short_options("w4a16", 0);
    options.calibration.samples = 5;
    options.deterministic = deterministic;
    convert(golden_model("llama3"), directory / "out", options);
    errors[deterministic ? 1 : 0] = distance(logits_of(directory / "out"), logits_of(golden_model("llama3")));
  }
  CHECK(errors[1] == doctest::Approx(errors[0]).epsilon(0.05));
}

TEST_CASE("a conversion with another recipe does not resume the progress of the first") {
  const TemporaryDirectory directory;
  const auto stop_late = [](std::string_view stage, std::size_t done, std::size_t) {
    if (stage == "converting" && done == 2) throw Stopped{};
  };
  CHECK_THROWS_AS(convert(golden_model("llama3"), directory / "out", short_options("w4a16", 0), stop_late), Stopped);
  convert(golden_model("llama3"), directory / "out", short_options("w8a8", 0));
  convert(golden_model("llama3"), directory / "fresh", short_options("w8a8", 0));
  CHECK(files_of(directory / "out") == files_of(directory / "fresh"));
}

TEST_CASE("a stopped conversion resumes with the same statistics in another file") {
  const TemporaryDirectory directory;
  ConvertOptions options = short_options("w4a16", 0);
  save_statistics(calibrate(golden_model("llama3"), options.calibration), directory / "stats", false);
  fs::copy_file(directory / "stats", directory / "copy");
  options.statistics = directory / "stats";
  convert(golden_model("llama3"), directory / "whole", options);

  // The progress after the first stage is always saved.
  const auto stop = [](std::string_view stage, std::size_t done, std::size_t) {
    if (stage == "converting" && done == 2) throw Stopped{};
  };
  CHECK_THROWS_AS(convert(golden_model("llama3"), directory / "out", options, stop), Stopped);
  options.statistics = directory / "copy";
  bool went_on = false;
  options.calibration.on_message = [&](const std::string& message) {
    went_on |= message.starts_with("going on after block");
  };
  convert(golden_model("llama3"), directory / "out", options);
  CHECK(went_on);
  CHECK(files_of(directory / "out") == files_of(directory / "whole"));
}

TEST_CASE("without a size, small models keep the bits of their scheme") {
  for (const char* golden : {"llama3", "glm", "qwen3", "mistral", "olmo2"}) {
    CAPTURE(golden);
    const TemporaryDirectory directory;
    convert(golden_model(golden), directory / "out", short_options("w8a16", Recipe::kNaturalSize));
    CHECK(distance(logits_of(directory / "out"), logits_of(golden_model(golden))) <= 0.05);
  }
}

TEST_CASE("without a size a model without a head keeps the scheme's formats, and others choose theirs") {
  for (const bool chosen : {false, true}) {
    CAPTURE(chosen);
    const TemporaryDirectory directory;
    test::TinyModel model = test::read_model(golden_model("embedding_gemma"));
    if (!chosen) model.config["architectures"] = {"Gemma3TextModel"};
    const fs::path original = model.write(directory / "model");
    convert(original, directory / "out", short_options("w8a16", Recipe::kNaturalSize));
    const auto checkpoint = files::open_checkpoint(directory / "out");
    for (const auto& [name, format] : checkpoint->config()["quantization_config"]["tensors"].items()) {
      CAPTURE(name);
      CHECK(format.get<std::string>().ends_with("-s8") == chosen);
    }
  }
}

}  // namespace
}  // namespace ballast
