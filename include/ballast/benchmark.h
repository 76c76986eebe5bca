// Measures the speed of a model and the limits of the machine.
#ifndef BALLAST_BENCHMARK_H_
#define BALLAST_BENCHMARK_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ballast/adapter.h"
#include "ballast/cache.h"
#include "ballast/model_options.h"
#include "ballast/processor.h"
#include "ballast/progress.h"

namespace ballast {

struct BenchmarkOptions {
  std::size_t prompt = 512;     ///< tokens of the prompt test; 0: none
  std::size_t generate = 128;   ///< tokens of the generation test; 0: none
  std::size_t depth = 0;        ///< tokens already in the cache; may exceed the context, unless positions are learned
  std::size_t sequences = 1;    ///< that the generation test continues at once
  bool share_depth = false;     ///< all sequences share these tokens and their memory
  std::size_t repetitions = 5;  ///< measured rounds, after one for warm-up
  std::vector<AdapterFiles> adapters{};  ///< the sequences have them by turns; empty: none
  CacheOptions cache{};
  ModelOptions model{};
};

struct BenchmarkResult {
  std::string test;              ///< "pp512", "tg128", "tg128 x 4", "pp512 @ d4096", "tg128 x 4 @ d4096 shared"
  double tokens_per_second = 0;  ///< mean; of all sequences together
  double stddev = 0;
  double gb_s = 0;               ///< weights and cache that are read from memory
  double gop_s = 0;              ///< of the matrices; a multiply-add counts as two
  double fraction_of_limit = 0;  ///< of the read bandwidth or the multiply-add peak, the lower limit of the two
};

struct Benchmark {
  std::string cpu;
  std::string simd_target;
  std::size_t threads = 0;
  double read_gb_s = 0;   ///< measured in the same run
  double peak_gops = 0;   ///< of multiply-adds in the model's type, measured in the same run
  std::string peak_type;  ///< "INT8", "F32" or "BF16"
  std::vector<EngineChoice> engines;
  bool bf16_products = false;
  std::vector<BenchmarkResult> results;
  double load_seconds = 0;
  std::uint64_t peak_rss_bytes = 0;
  std::optional<ExpertFigures> experts{};  ///< if ModelOptions::expert_bytes is set
};

Benchmark benchmark(const std::filesystem::path& model, const BenchmarkOptions& options, const Progress& progress = {});
std::string benchmark_json(const Benchmark& benchmark);

struct SpeculationBenchmarkOptions {
  std::filesystem::path text_file;               ///< a prompt, which is continued
  std::optional<std::filesystem::path> draft{};  ///< also drafts with this model, see GenerateOptions::draft_tokens
  std::size_t draft_tokens = 8;
  double temperature = 0;
  std::size_t generate = 128;
  std::size_t repetitions = 5;  ///< measured rounds, each with speculation and without, after one for warm-up
  CacheOptions cache{};
  ModelOptions model{};
};

/// The gain of speculative decoding on a text.
struct SpeculationBenchmark {
  std::size_t prompt_tokens = 0;
  std::size_t generated_tokens = 0;    ///< fewer than requested if the text ended
  double plain_tokens_per_second = 0;  ///< median of the rounds, as are the figures below
  double tokens_per_second = 0;
  double speedup = 0;  ///< median of the rounds' ratios
  std::size_t draft_tokens = 0;
  std::size_t accepted_tokens = 0;
};

/// Also throws Error if the text with speculation differs.
SpeculationBenchmark benchmark_speculation(const std::filesystem::path& model,
                                           const SpeculationBenchmarkOptions& options, const Progress& progress = {});
std::string benchmark_json(const SpeculationBenchmark& benchmark);

}  // namespace ballast

#endif  // BALLAST_BENCHMARK_H_
