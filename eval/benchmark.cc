#include "ballast/benchmark.h"

#include <omp.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <span>

#include "ballast/error.h"
#include "ballast/processor.h"
#include "eval/expert_json.h"
#include "eval/result_fields.h"
#include "jobs/cpu_name.h"
#include "kernels/clock.h"
#include "kernels/machine.h"
#include "model/model.h"

namespace ballast {

namespace {

using kernels::Clock;
using kernels::seconds_since;

// Up to this limit, positions are exact in F32, and sizes of caches do not overflow.
constexpr std::size_t kMostTokens = std::size_t{1} << 24;

std::uint64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

/// Opens the model; throws before its weights are loaded if the benchmark cannot run.
std::unique_ptr<model::ModelSource> open_model(const std::filesystem::path& path, const BenchmarkOptions& options) {
  if (options.repetitions == 0) throw Error("repetitions", "must be at least 1");
  if (options.sequences == 0) throw Error("sequences", "must be at least 1");
  if (std::max({options.depth, options.prompt, options.generate, options.sequences}) > kMostTokens) {
    throw Error("benchmark", "more than " + std::to_string(kMostTokens) + " tokens: measure fewer");
  }
  auto source = std::make_unique<model::ModelSource>(path);
  if (source->spec().encoder) {
    throw Error(path.string(), "has an encoder and a decoder, whose speed `ballast translate --json` shows");
  }
  if (!source->spec().causal && (options.generate > 0 || options.depth > 0)) {
    throw Error(path.string(), "is an encoder, which generates nothing: measure prompts only (-n 0 -d 0)");
  }
  if (!source->spec().has_head && (options.generate > 0 || options.depth > 0)) {
    throw Error(path.string(), std::string(model::kNoHead) + ": measure prompts only (-n 0 -d 0)");
  }
  // Rotated positions continue beyond the context: such tokens are meaningless to the model, but cost the same.
  const std::size_t needed = options.depth + std::max(options.prompt, options.generate);
  if (source->spec().learned_positions && needed > source->context_length()) {
    throw Error("benchmark", std::to_string(needed) + " tokens do not fit the model's table of " +
                                 std::to_string(source->context_length()) + " positions: measure fewer");
  }
  return source;
}

/// The work for one token of a test.
struct TokenWork {
  double bytes = 0;       ///< read from memory
  double operations = 0;  ///< of the matrices
};

class ModelBenchmark {
 public:
  ModelBenchmark(const std::filesystem::path& path, const BenchmarkOptions& options, const Progress& progress)
      : options_(options),
        progress_(progress),
        start_(Clock::now()),
        model_(open_model(path, options), model::FloatLayout::kPanels, options.model) {
    for (const AdapterFiles& files : options.adapters) adapters_.push_back(model_.load_adapter(files));
    result_.load_seconds = seconds_since(start_);
  }

  Benchmark run() {
    result_.cpu = jobs::cpu_name();
    result_.simd_target = simd_target();
    result_.threads = static_cast<std::size_t>(omp_get_max_threads());
    if (options_.prompt > 0) {
      measure("pp" + std::to_string(options_.prompt), {.tokens = options_.prompt}, prompt_work());
    }
    if (options_.generate > 0) {
      const std::string many = options_.sequences > 1 ? " x " + std::to_string(options_.sequences) : "";
      measure("tg" + std::to_string(options_.generate) + many,
              {.steps = options_.generate, .sequences = options_.sequences, .share_depth = options_.share_depth},
              generation_work());
    }
    result_.experts = model_.expert_figures();
    result_.peak_rss_bytes = peak_rss_bytes();  // before the measurement of the machine allocates memory
    measure_machine();
    for (std::size_t i = 0; i < result_.results.size(); ++i) {
      BenchmarkResult& result = result_.results[i];
      result.gb_s = result.tokens_per_second * work_[i].bytes * 1e-9;
      result.gop_s = result.tokens_per_second * work_[i].operations * 1e-9;
      result.fraction_of_limit = std::max(result.gb_s / result_.read_gb_s, result.gop_s / result_.peak_gops);
    }
    return result_;
  }

 private:
  void measure_machine() {
    result_.read_gb_s = kernels::measure_read_gb_s();
    result_.bf16_products = options_.model.compute.bf16_products;
    if (model_.multiplies_integers()) {
      result_.peak_type = "INT8";
      result_.peak_gops = kernels::measure_int8_gops();
    } else {
      result_.peak_type = result_.bf16_products ? "BF16" : "F32";
      result_.peak_gops = result_.bf16_products ? kernels::measure_bf16_gflops() : kernels::measure_f32_gflops();
    }
    result_.engines = engine_choices(options_.model.compute.float_gemm);
  }

  /// Returns the work of a prompt's token; weights are read once per pass.
  TokenWork prompt_work() const {
    constexpr std::size_t kPass = model::Model::kPassTokens;
    const std::size_t passes = (options_.prompt + kPass - 1) / kPass;
    const auto bytes = static_cast<double>(passes * model_.streamed_bytes());
    return {.bytes = bytes / static_cast<double>(options_.prompt),
            .operations = 2 * model_.prompt_weights(options_.prompt)};
  }

  /// Returns the work of a generated token. Weights and a common beginning are read once for all sequences; the cache
  /// is counted at its mean length.
  TokenWork generation_work() {
    model::SequenceState state = make_state();
    state.advance(options_.depth);
    const double common = options_.share_depth ? static_cast<double>(state.bytes_in_use()) : 0;
    state.advance(options_.generate / 2);
    const double own = static_cast<double>(state.bytes_in_use()) - common;
    const double once = static_cast<double>(model_.streamed_bytes()) + common;
    return {.bytes = once / static_cast<double>(options_.sequences) + own, .operations = 2 * model_.prompt_weights(1)};
  }

  model::SequenceState make_state() {
    const std::size_t capacity = options_.depth + std::max(options_.prompt, options_.generate);
    return model_.make_state(options_.cache, capacity);
  }

  /// Runs `tokens` more random tokens in each sequence, and computes the logits of the last.
  void step(std::span<model::SequenceState> states, std::size_t tokens) {
    const std::size_t vocab_size = model_.spec().vocab_size;
    logits_.resize(states.size() * vocab_size);
    ids_.resize(states.size() * tokens);
    for (int& id : ids_) id = static_cast<int>(random_() % vocab_size);
    batch_.clear();
    for (std::size_t i = 0; i < states.size(); ++i) {
      batch_.push_back({.tokens = std::span(ids_).subspan(i * tokens, tokens), .state = &states[i], .wanted = 1});
    }
    model_.run(batch_, logits_.data(), workspace_);
  }

  /// Runs steps that add `tokens` to each sequence.
  struct Steps {
    std::size_t tokens = 1;
    std::size_t steps = 1;
    std::size_t sequences = 1;
    bool share_depth = false;
  };

  void measure(const std::string& name, const Steps& test, const TokenWork& work) {
    std::vector<model::SequenceState> states(test.share_depth ? 1 : test.sequences, make_state());
    for (std::size_t i = 0; i < states.size() && !adapters_.empty(); ++i) {
      states[i].set_adapter(adapters_[i % adapters_.size()]);
    }
    if (options_.depth > 0) step(states, options_.depth);
    if (test.share_depth) states.resize(test.sequences, model::SequenceState(states.front()));
    std::vector<double> speeds;
    for (std::size_t i = 0; i <= options_.repetitions; ++i) {
      for (model::SequenceState& state : states) {
        // A sequence that cannot be truncated continues: its work stays the same.
        if (!state.cache().rolling() && state.can_truncate_to(options_.depth)) state.truncate(options_.depth);
      }
      const Clock::time_point start = Clock::now();
      for (std::size_t k = 0; k < test.steps; ++k) step(states, test.tokens);
      const auto tokens = static_cast<double>(test.sequences * test.steps * test.tokens);
      if (i > 0) speeds.push_back(tokens / seconds_since(start));
      if (progress_) progress_(name, i + 1, options_.repetitions + 1);
    }
    BenchmarkResult entry;
    entry.test = name + (options_.depth > 0 ? " @ d" + std::to_string(options_.depth) : "");
    if (test.share_depth) entry.test += " shared";
    entry.tokens_per_second = std::accumulate(speeds.begin(), speeds.end(), 0.0) / static_cast<double>(speeds.size());
    for (const double speed : speeds) entry.stddev += std::pow(speed - entry.tokens_per_second, 2);
    entry.stddev = speeds.size() > 1 ? std::sqrt(entry.stddev / static_cast<double>(speeds.size() - 1)) : 0;
    result_.results.push_back(entry);
    work_.push_back(work);
  }

  const BenchmarkOptions& options_;
  const Progress& progress_;
  Clock::time_point start_;
  model::Model model_;
  std::vector<Adapter> adapters_;
  model::Workspace workspace_;
  std::mt19937_64 random_{0};
  std::vector<int> ids_;
  std::vector<model::SequenceTokens> batch_;
  std::vector<float> logits_;
  Benchmark result_;
  std::vector<TokenWork> work_;  ///< for each result
};

}  // namespace

Benchmark benchmark(const std::filesystem::path& model, const BenchmarkOptions& options, const Progress& progress) {
  return ModelBenchmark(model, options, progress).run();
}

std::string benchmark_json(const Benchmark& benchmark) {
  nlohmann::json machine;
  eval::for_each_machine_field(benchmark, eval::WriteField{machine});
  nlohmann::json result = {
      {"machine", machine}, {"load_seconds", benchmark.load_seconds}, {"peak_rss_bytes", benchmark.peak_rss_bytes}};
  eval::WriteField{result}("results", benchmark.results);
  if (benchmark.experts) result["experts"] = eval::expert_json(*benchmark.experts);
  return result.dump();
}

}  // namespace ballast
