#include "ballast/benchmark.h"

#include <omp.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "ballast/error.h"
#include "ballast/processor.h"
#include "kernels/machine.h"
#include "model/model.h"

namespace ballast {

namespace {

using Clock = std::chrono::steady_clock;

// Positions up to here are exact in F32, and sizes of caches far from overflow.
constexpr std::size_t kMostTokens = std::size_t{1} << 24;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::uint64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

/// The model, refused before its weights are loaded where the benchmark cannot be run.
std::unique_ptr<model::ModelSource> open_model(const std::filesystem::path& path, const BenchmarkOptions& options) {
  if (options.repetitions == 0) throw Error("repetitions", "must be at least 1");
  if (std::max({options.depth, options.prompt, options.generate}) > kMostTokens) {
    throw Error("benchmark", "more than " + std::to_string(kMostTokens) + " tokens: measure fewer");
  }
  auto source = std::make_unique<model::ModelSource>(path);
  if (!source->spec().causal && (options.generate > 0 || options.depth > 0)) {
    throw Error(path.string(), "is an encoder, which generates nothing: measure prompts only (-n 0 -d 0)");
  }
  // Rotated positions go on beyond the context: its tokens mean nothing to the model, but cost what others do.
  const std::size_t needed = options.depth + std::max(options.prompt, options.generate);
  if (source->spec().learned_positions && needed > source->context_length()) {
    throw Error("benchmark", std::to_string(needed) + " tokens do not fit the model's table of " +
                                 std::to_string(source->context_length()) + " positions: measure fewer");
  }
  return source;
}

class ModelBenchmark {
 public:
  ModelBenchmark(const std::filesystem::path& path, const BenchmarkOptions& options, const Progress& progress)
      : options_(options), progress_(progress), start_(Clock::now()), model_(open_model(path, options)) {
    result_.load_seconds = seconds_since(start_);
  }

  Benchmark run() {
    result_.cpu = cpu_name();
    result_.simd_target = simd_target();
    result_.threads = static_cast<std::size_t>(omp_get_max_threads());
    if (options_.prompt > 0) {
      measure("pp" + std::to_string(options_.prompt), options_.prompt, prompt_limit(),
              [&](model::SequenceState& state) { run_prompt(state, options_.prompt); });
    }
    if (options_.generate > 0) {
      measure("tg" + std::to_string(options_.generate), options_.generate, generation_limit(),
              [&](model::SequenceState& state) {
                for (std::size_t i = 0; i < options_.generate; ++i) run_prompt(state, 1);
              });
    }
    result_.peak_rss_bytes = peak_rss_bytes();  // before the machine's measurement takes memory of its own
    result_.read_gb_s = kernels::measure_read_gb_s();
    result_.int8_gops = kernels::measure_int8_gops();
    result_.engines = engine_choices();
    result_.bf16_products = bf16_products();
    for (std::size_t i = 0; i < result_.results.size(); ++i) {
      result_.results[i].fraction_of_limit = result_.results[i].tokens_per_second / limits_[i]();
    }
    return result_;
  }

 private:
  // Tokens per second if the multiply-add units never waited.
  std::function<double()> prompt_limit() {
    const double per_token = model_.prompt_weights(options_.prompt);
    return [=, this] { return result_.int8_gops * 1e9 / (2 * per_token); };
  }

  // Tokens per second if memory never waited: weights, and the cache at its mean length.
  std::function<double()> generation_limit() {
    model::SequenceState state = make_state();
    state.advance(options_.depth + options_.generate / 2);
    const auto bytes = static_cast<double>(model_.streamed_bytes() + state.bytes_in_use());
    return [=, this] { return result_.read_gb_s * 1e9 / bytes; };
  }

  model::SequenceState make_state() {
    const std::size_t capacity = options_.depth + std::max(options_.prompt, options_.generate);
    return model_.make_state(options_.cache, capacity);
  }

  void run_prompt(model::SequenceState& state, std::size_t tokens) {
    logits_.resize(model_.spec().vocab_size);
    ids_.resize(tokens);
    for (int& id : ids_) id = static_cast<int>(random_() % model_.spec().vocab_size);
    model_.next_logits(ids_, state, logits_.data(), workspace_);
  }

  template <typename Test>
  void measure(const std::string& name, std::size_t tokens, const std::function<double()>& limit, const Test& test) {
    model::SequenceState state = make_state();
    if (options_.depth > 0) run_prompt(state, options_.depth);
    std::vector<double> speeds;
    for (std::size_t i = 0; i <= options_.repetitions; ++i) {
      // What cannot be cut goes on: its work stays the same.
      if (!state.cache().rolling() && state.can_truncate_to(options_.depth)) state.truncate(options_.depth);
      const Clock::time_point start = Clock::now();
      test(state);
      if (i > 0) speeds.push_back(static_cast<double>(tokens) / seconds_since(start));
      if (progress_) progress_(name, i + 1, options_.repetitions + 1);
    }
    BenchmarkResult entry;
    entry.test = name + (options_.depth > 0 ? " @ d" + std::to_string(options_.depth) : "");
    entry.tokens_per_second = std::accumulate(speeds.begin(), speeds.end(), 0.0) / static_cast<double>(speeds.size());
    for (const double speed : speeds) entry.stddev += std::pow(speed - entry.tokens_per_second, 2);
    entry.stddev = speeds.size() > 1 ? std::sqrt(entry.stddev / static_cast<double>(speeds.size() - 1)) : 0;
    result_.results.push_back(entry);
    limits_.push_back(limit);
  }

  const BenchmarkOptions& options_;
  const Progress& progress_;
  Clock::time_point start_;
  model::Model model_;
  model::Workspace workspace_;
  std::mt19937_64 random_{0};
  std::vector<int> ids_;
  std::vector<float> logits_;
  Benchmark result_;
  std::vector<std::function<double()>> limits_;  ///< of the results, known once the machine is measured
};

}  // namespace

Benchmark benchmark(const std::filesystem::path& model, const BenchmarkOptions& options, const Progress& progress) {
  return ModelBenchmark(model, options, progress).run();
}

std::string benchmark_json(const Benchmark& benchmark) {
  nlohmann::json results = nlohmann::json::array();
  for (const BenchmarkResult& result : benchmark.results) {
    results.push_back({{"test", result.test},
                       {"tokens_per_second", result.tokens_per_second},
                       {"stddev", result.stddev},
                       {"fraction_of_limit", result.fraction_of_limit}});
  }
  nlohmann::json engines = nlohmann::json::array();
  for (const EngineChoice& choice : benchmark.engines) {
    engines.push_back({{"tokens", choice.tokens}, {"engine", choice.engine}, {"speed", choice.speed}});
  }
  return nlohmann::json{{"machine",
                         {{"cpu", benchmark.cpu},
                          {"simd_target", benchmark.simd_target},
                          {"threads", benchmark.threads},
                          {"read_gb_s", benchmark.read_gb_s},
                          {"int8_gops", benchmark.int8_gops},
                          {"engines", engines},
                          {"bf16_products", benchmark.bf16_products}}},
                        {"results", results},
                        {"load_seconds", benchmark.load_seconds},
                        {"peak_rss_bytes", benchmark.peak_rss_bytes}}
      .dump();
}

}  // namespace ballast
