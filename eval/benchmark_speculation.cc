#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "ballast/benchmark.h"
#include "ballast/error.h"
#include "ballast/generate.h"
#include "files/text_file.h"

namespace ballast {

namespace {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double speed(const GenerateResult& result) {
  return static_cast<double>(result.tokens.size()) / result.seconds;
}

bool same_tokens(const GenerateResult& a, const GenerateResult& b) {
  return std::ranges::equal(a.tokens, b.tokens, {}, &GeneratedToken::id, &GeneratedToken::id);
}

}  // namespace

SpeculationBenchmark benchmark_speculation(const std::filesystem::path& path,
                                           const SpeculationBenchmarkOptions& options, const Progress& progress) {
  if (options.repetitions == 0) throw Error("repetitions", "must be at least 1");
  const std::string prompt = files::read_text_file(options.text_file);
  ModelOptions model_options = options.model;
  model_options.draft_head = !options.draft;
  const Model model(path, model_options);
  Generator generator =
      options.draft ? Generator(model, Model(*options.draft, {.compute = options.model.compute})) : Generator(model);
  const auto generate = [&](std::size_t draft_tokens) {
    GenerateOptions generate_options;
    generate_options.max_tokens = options.generate;
    generate_options.temperature = options.temperature;
    generate_options.draft_tokens = draft_tokens;
    generate_options.cache = options.cache;
    return generator.generate(prompt, generate_options);
  };
  SpeculationBenchmark benchmark;
  std::vector<double> plain_speeds, speeds, speedups;
  for (std::size_t round = 0; round <= options.repetitions; ++round) {
    const GenerateResult plain = generate(0);
    const GenerateResult result = generate(options.draft_tokens);
    if (!same_tokens(plain, result)) throw Error(path.string(), "speculation changed what is generated");
    if (progress) progress("speculation", round + 1, options.repetitions + 1);
    benchmark.prompt_tokens = result.prompt_tokens;
    benchmark.generated_tokens = result.tokens.size();
    benchmark.draft_tokens = result.draft_tokens;
    benchmark.accepted_tokens = result.accepted_tokens;
    if (round == 0) continue;
    plain_speeds.push_back(speed(plain));
    speeds.push_back(speed(result));
    speedups.push_back(speeds.back() / plain_speeds.back());
  }
  benchmark.plain_tokens_per_second = median(plain_speeds);
  benchmark.tokens_per_second = median(speeds);
  benchmark.speedup = median(speedups);
  return benchmark;
}

std::string benchmark_json(const SpeculationBenchmark& benchmark) {
  return nlohmann::json{{"prompt_tokens", benchmark.prompt_tokens},
                        {"generated_tokens", benchmark.generated_tokens},
                        {"plain_tokens_per_second", benchmark.plain_tokens_per_second},
                        {"tokens_per_second", benchmark.tokens_per_second},
                        {"speedup", benchmark.speedup},
                        {"draft_tokens", benchmark.draft_tokens},
                        {"accepted_tokens", benchmark.accepted_tokens}}
      .dump();
}

}  // namespace ballast
