// A run of a converted model keeps the tokens in 16 bits that calibration reports as massive.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "ballast/calibrate.h"
#include "ballast/convert.h"
#include "ballast/statistics.h"
#include "model/model.h"
#include "model_runs.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast {
namespace {

// In tests/data/models/llama3, the token with which texts begin causes a massive activation.
constexpr int kMassiveToken = 1;

Statistics measured() {
  CalibrateOptions options;
  options.samples = 2;
  options.length = 16;
  return calibrate(test::golden_model("llama3"), options);
}

/// Returns how many tokens an INT8 cache holds in 16 bits after a model has read `ids`.
std::size_t kept_in_16_bits(const model::Model& model, const std::vector<int>& ids) {
  model::SequenceState state = model.make_state({.type = CacheOptions::Type::kInt8}, ids.size());
  test::run_tokens(model, ids, state);
  return state.cache().fp16_tokens(0);
}

TEST_CASE("a run keeps exactly the tokens that calibration found massive in 16 bits") {
  const test::TemporaryDirectory directory;
  const Statistics statistics = measured();
  std::vector<int> reported;
  for (const MassiveToken& token : statistics.massive_tokens) reported.push_back(token.token);
  REQUIRE(std::ranges::find(reported, MassiveToken::kFirst) != reported.end());
  save_statistics(statistics, directory / "stats", false);
  convert(test::golden_model("llama3"), directory / "converted", {.statistics = directory / "stats"});

  model::Model model(directory / "converted");
  CHECK(model.source().massive_tokens() == reported);
  CHECK(kept_in_16_bits(model, {kMassiveToken, 5, 6, 7, 8, 9}) == 1);
}

TEST_CASE("a delimiter that calibration found massive stays in 16 bits at every position") {
  const test::TemporaryDirectory directory;
  Statistics statistics = measured();
  statistics.massive_tokens.push_back({.token = 7, .position = 3, .token_text = ".", .samples = 2});
  save_statistics(statistics, directory / "stats", false);
  convert(test::golden_model("llama3"), directory / "converted", {.statistics = directory / "stats"});

  model::Model model(directory / "converted");
  CHECK(kept_in_16_bits(model, {kMassiveToken, 5, 7, 6, 7, 9}) == 3);
  std::vector<int> delimiters(60, 7);
  CHECK(kept_in_16_bits(model, delimiters) == 60);
}

TEST_CASE("a model that was never calibrated keeps its first four tokens in 16 bits") {
  model::Model model(test::golden_model("llama3"));
  CHECK(!model.source().massive_tokens());
  CHECK(kept_in_16_bits(model, {5, 6, 7, 8, 9, 10}) == 4);
}

}  // namespace
}  // namespace ballast
