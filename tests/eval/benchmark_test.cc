#include "ballast/benchmark.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>

#include "error_message.h"
#include "model/model.h"

namespace ballast {
namespace {

const std::filesystem::path kModels = std::filesystem::path(BALLAST_TEST_DATA) / "models";

// Both models have a context of 64.
constexpr BenchmarkOptions kBeyondContext{.prompt = 8, .generate = 4, .depth = 100, .repetitions = 1, .cache = {}};

TEST_CASE("speed is measured after more tokens than the context where positions are rotated") {
  const Benchmark measured = benchmark(kModels / "llama", kBeyondContext);
  REQUIRE(measured.results.size() == 2);
  CHECK(measured.results[0].test == "pp8 @ d100");
  CHECK(measured.results[1].test == "tg4 @ d100");
  for (const BenchmarkResult& result : measured.results) CHECK(result.tokens_per_second > 0);
}

TEST_CASE("limits are the machine's figures over what a token of the model takes") {
  const Benchmark measured = benchmark(kModels / "llama", kBeyondContext);
  REQUIRE(measured.results.size() == 2);
  const model::Model model(kModels / "llama");
  const auto limit = [](const BenchmarkResult& result) { return result.tokens_per_second / result.fraction_of_limit; };
  // Two operations for each weight that a prompt's token meets.
  CHECK(limit(measured.results[0]) ==
        doctest::Approx(measured.int8_gops * 1e9 / (2 * model.prompt_weights(kBeyondContext.prompt))));
  // The weights, and the cache in the middle of the generation.
  model::SequenceState state = model.make_state({}, kBeyondContext.depth + kBeyondContext.prompt);
  state.advance(kBeyondContext.depth + kBeyondContext.generate / 2);
  const auto bytes = static_cast<double>(model.streamed_bytes() + state.bytes_in_use());
  CHECK(limit(measured.results[1]) == doctest::Approx(measured.read_gb_s * 1e9 / bytes));
}

TEST_CASE("a benchmark beyond a table of positions is refused") {
  const auto run = [] { benchmark(kModels / "gpt2", kBeyondContext); };
  CHECK(test::error_message(run) == test::Contains("108 tokens do not fit the model's table of 64 positions"));
}

TEST_CASE("a benchmark of more tokens than memory could hold is refused") {
  BenchmarkOptions options = kBeyondContext;
  options.depth = std::size_t{1} << 60;
  const auto run = [&] { benchmark(kModels / "llama", options); };
  CHECK(test::error_message(run) == test::Contains("more than 16777216 tokens"));
}

}  // namespace
}  // namespace ballast
