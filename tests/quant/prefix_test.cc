// Conversion with a prefix.
#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "ballast/calibrate.h"
#include "ballast/convert.h"
#include "error_message.h"
#include "file_bytes.h"
#include "fixed_recipe.h"
#include "model/model.h"
#include "model_runs.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast {
namespace {

using test::Contains;
using test::error_message;
using test::golden_model;
namespace fs = std::filesystem;

const std::vector<int> kPrefix = {9, 1};

ConvertOptions after(const CachedPrefix& prefix, const char* scheme = "f32",
                     const std::optional<fs::path>& statistics = {}) {
  ConvertOptions options{.recipe = test::fixed_recipe(scheme), .statistics = statistics};
  options.recipe.prefix = prefix;
  options.calibration.samples = 2;
  options.calibration.length = 16;
  return options;
}

fs::path save_measured(const fs::path& path, const fs::path& model, const CachedPrefix& prefix) {
  save_statistics(calibrate(model, {.samples = 2, .length = 16, .prefix = prefix}), path, true);
  return path;
}

TEST_CASE("a converted model with a prefix gives the original's logits after the prefix") {
  const test::TemporaryDirectory directory;
  for (const char* name : {"llama3", "gpt2"}) {
    CAPTURE(name);
    convert(golden_model(name), directory / name, after({.tokens = kPrefix}));
    model::Model model(directory / name);
    model::Model original(golden_model(name));
    CHECK(model.source().prefix_tokens() == kPrefix);
    std::vector<int> ids = kPrefix;
    for (int i = 0; i < 40; ++i) ids.push_back(i * 23 % 67);
    const std::vector<float> all = test::run_at_once(original, ids);
    const std::vector<float> expected(
        all.begin() + static_cast<std::ptrdiff_t>(kPrefix.size() * original.spec().vocab_size), all.end());
    const std::vector<int> text(ids.begin() + static_cast<std::ptrdiff_t>(kPrefix.size()), ids.end());
    CHECK(test::relative_error(test::run_at_once(model, text), expected) < 1e-4);
  }
}

TEST_CASE("an automatic prefix has the massive tokens, and the model is rounded with it") {
  const test::TemporaryDirectory directory;
  convert(golden_model("llama3"), directory / "automatic", after({.automatic = true}, "w8a8"));
  model::Model model(directory / "automatic");
  const std::vector<int> prefix = model.source().prefix_tokens();
  REQUIRE(!prefix.empty());
  CHECK(prefix.back() == 1);
  const fs::path stats = save_measured(directory / "stats", golden_model("llama3"), {.automatic = true});
  convert(golden_model("llama3"), directory / "from_statistics", after({.automatic = true}, "w8a8", stats));
  convert(golden_model("llama3"), directory / "by_name", after({.tokens = prefix}, "w8a8", stats));
  for (const char* other : {"from_statistics", "by_name"}) {
    CAPTURE(other);
    for (const char* file : {"config.json", "model.safetensors"}) {
      CHECK(test::read_file(directory / other / file) == test::read_file(directory / "automatic" / file));
    }
  }
  CHECK(error_message([&] {
          convert(golden_model("llama"), directory / "none", after({.automatic = true}, "w8a8"));
        }) == Contains("no token is massive"));
}

TEST_CASE("statistics of another prefix are refused") {
  const test::TemporaryDirectory directory;
  const fs::path bare = save_measured(directory / "bare", golden_model("llama3"), {});
  const fs::path other = save_measured(directory / "other", golden_model("llama3"), {.tokens = {5}});
  const auto refusal = [&](const CachedPrefix& prefix, const char* scheme, const fs::path& statistics) {
    return error_message(
        [&] { convert(golden_model("llama3"), directory / "out", after(prefix, scheme, statistics)); });
  };
  CHECK(refusal({}, "w8a8", other) == Contains("was measured with the prefix 5, not none"));
  CHECK(refusal({.tokens = kPrefix}, "w8a8", other) == Contains("was measured with the prefix 5, not 9,1"));
  CHECK(refusal({.tokens = kPrefix}, "w8a8", bare) == Contains("was measured with the prefix none, not 9,1"));
  CHECK(refusal({.automatic = true}, "w8a8", bare) == Contains("was measured with the prefix none"));
  CHECK(refusal({.automatic = true}, "f32", bare) == "no error");
}

TEST_CASE("a prefix that the model cannot have is refused") {
  const test::TemporaryDirectory directory;
  const auto refusal = [&](const char* model, const CachedPrefix& prefix) {
    return error_message([&] { convert(golden_model(model), directory / "out", after(prefix)); });
  };
  CHECK(refusal("llama3", {.tokens = {67}}) == Contains("token 67, which is not in the model's vocabulary of 67"));
  CHECK(refusal("llama3", {.tokens = std::vector<int>(63, 1)}) == Contains("leaves no room for text"));
  CHECK(refusal("bert", {.tokens = kPrefix}) == Contains("is an encoder"));
}

TEST_CASE("a model keeps its prefix in a conversion") {
  const test::TemporaryDirectory directory;
  convert(golden_model("llama3"), directory / "model", after({.tokens = kPrefix}));
  CHECK(calibrate(directory / "model", {.samples = 2, .length = 16}).prefix == kPrefix);
  convert(directory / "model", directory / "again", after({}, "w8a8"));
  CHECK(model::ModelSource(directory / "again").prefix_tokens() == kPrefix);
  CHECK(error_message([&] { convert(directory / "model", directory / "other", after({.tokens = {5}})); }) ==
        Contains("has the prefix 9,1 already"));
}

TEST_CASE("a conversion without a prefix writes no field of a prefix") {
  const test::TemporaryDirectory directory;
  convert(golden_model("llama3"), directory / "out", after({}));
  for (const char* file : {"config.json", "recipe.json"}) {
    CHECK(test::read_file(directory / "out" / file).find("prefix") == std::string::npos);
  }
  Recipe recipe = recipe_for_scheme("w4a8");
  recipe.prefix.tokens = kPrefix;
  CHECK(parse_recipe(recipe_json(recipe), "r.json").prefix == recipe.prefix);
  CHECK(error_message([] { parse_recipe(R"({"prefix": "7,"})", "r.json"); }) == Contains("r.json: prefix: '7,'"));
}

}  // namespace
}  // namespace ballast
