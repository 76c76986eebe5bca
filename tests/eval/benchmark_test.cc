#include "ballast/benchmark.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>

#include "error_message.h"
#include "model/model.h"

namespace ballast {
namespace {

const std::filesystem::path kModels = std::filesystem::path(BALLAST_TEST_DATA) / "models";

// Both models have a context of 64.
const BenchmarkOptions kBeyondContext{.prompt = 8, .generate = 4, .depth = 100, .repetitions = 1, .cache = {}};

TEST_CASE("speed can be measured beyond the context if positions are rotated") {
  const Benchmark measured = benchmark(kModels / "llama", kBeyondContext);
  REQUIRE(measured.results.size() == 2);
  CHECK(measured.results[0].test == "pp8 @ d100");
  CHECK(measured.results[1].test == "tg4 @ d100");
  for (const BenchmarkResult& result : measured.results) CHECK(result.tokens_per_second > 0);
}

TEST_CASE("a test's rates are its speed times the work of a token, and the larger share of a limit is reported") {
  BenchmarkOptions options = kBeyondContext;
  options.sequences = 3;
  const Benchmark measured = benchmark(kModels / "llama", options);
  REQUIRE(measured.results.size() == 2);
  CHECK(measured.results[1].test == "tg4 x 3 @ d100");
  CHECK(measured.peak_type == "F32");
  for (const BenchmarkResult& result : measured.results) {
    CHECK(result.fraction_of_limit == std::max(result.gb_s / measured.read_gb_s, result.gop_s / measured.peak_gops));
  }
  const model::Model model(kModels / "llama");
  const auto of_a_token = [](const BenchmarkResult& result, double rate) {
    return doctest::Approx(rate * 1e9 / result.tokens_per_second);
  };
  // A prompt's token is multiplied with each weight, which is two operations; the weights are read once.
  const BenchmarkResult& prompt = measured.results[0];
  CHECK(2 * model.prompt_weights(options.prompt) == of_a_token(prompt, prompt.gop_s));
  const auto weights = static_cast<double>(model.streamed_bytes());
  CHECK(weights / static_cast<double>(options.prompt) == of_a_token(prompt, prompt.gb_s));
  // Generation reads the weights once for all sequences, and the cache at the middle of the generation.
  model::SequenceState state = model.make_state({}, kBeyondContext.depth + kBeyondContext.prompt);
  state.advance(kBeyondContext.depth + kBeyondContext.generate / 2);
  const BenchmarkResult& generation = measured.results[1];
  CHECK(weights / 3 + static_cast<double>(state.bytes_in_use()) == of_a_token(generation, generation.gb_s));
}

TEST_CASE("a shared beginning of sequences is counted once") {
  BenchmarkOptions options = kBeyondContext;
  options.prompt = 0;
  options.sequences = 3;
  options.share_depth = true;
  const Benchmark measured = benchmark(kModels / "llama", options);
  REQUIRE(measured.results.size() == 1);
  const BenchmarkResult& result = measured.results[0];
  CHECK(result.test == "tg4 x 3 @ d100 shared");
  const model::Model model(kModels / "llama");
  const auto cache_bytes = [&](std::size_t tokens) {
    model::SequenceState state = model.make_state({}, kBeyondContext.depth + kBeyondContext.prompt);
    state.advance(tokens);
    return static_cast<double>(state.bytes_in_use());
  };
  const double common = cache_bytes(options.depth), own = cache_bytes(options.depth + options.generate / 2) - common;
  const double bytes = (static_cast<double>(model.streamed_bytes()) + common) / 3 + own;
  CHECK(bytes == doctest::Approx(result.gb_s * 1e9 / result.tokens_per_second));
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
