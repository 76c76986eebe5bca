// Speed of a model on this machine, beside the machine's own limits.
#ifndef BALLAST_BENCHMARK_H_
#define BALLAST_BENCHMARK_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ballast/cache.h"
#include "ballast/processor.h"
#include "ballast/progress.h"

namespace ballast {

struct BenchmarkOptions {
  std::size_t prompt = 512;     ///< tokens of the prompt test; 0: none
  std::size_t generate = 128;   ///< tokens of the generation test; 0: none
  std::size_t depth = 0;        ///< tokens already in the cache; may exceed the context, unless positions are learned
  std::size_t repetitions = 5;  ///< one more is run first and discarded
  CacheOptions cache{};
};

struct BenchmarkResult {
  std::string test;              ///< "pp512", "tg128", "pp512 @ d4096"
  double tokens_per_second = 0;  ///< mean
  double stddev = 0;
  double fraction_of_limit = 0;  ///< of the read bandwidth (tg) or of the INT8 multiply-add peak (pp)
};

struct Benchmark {
  std::string cpu;
  std::string simd_target;
  std::size_t threads = 0;
  double read_gb_s = 0;  ///< measured in the same run
  double int8_gops = 0;  ///< measured in the same run
  std::vector<EngineChoice> engines;
  bool bf16_products = false;
  std::vector<BenchmarkResult> results;
  double load_seconds = 0;
  std::uint64_t peak_rss_bytes = 0;
};

Benchmark benchmark(const std::filesystem::path& model, const BenchmarkOptions& options, const Progress& progress = {});
std::string benchmark_json(const Benchmark& benchmark);

}  // namespace ballast

#endif  // BALLAST_BENCHMARK_H_
