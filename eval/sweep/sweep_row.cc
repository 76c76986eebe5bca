#include "eval/sweep/sweep_row.h"

#include "ballast/error.h"

namespace ballast::eval {

namespace {

using nlohmann::json;

template <typename Value>
void read(const json& object, const char* name, Value& value) {
  object.at(name).get_to(value);
}

void read(const json& object, const char* name, std::optional<double>& value) {
  if (object.contains(name)) value = object.at(name).get<double>();
}

Evaluation parse_evaluation(const json& object) {
  Evaluation evaluation;
  read(object, "chunks", evaluation.chunks);
  read(object, "tokens", evaluation.tokens);
  read(object, "ppl", evaluation.ppl);
  read(object, "ppl_stderr", evaluation.ppl_stderr);
  read(object, "reference_ppl", evaluation.reference_ppl);
  read(object, "kl_mean", evaluation.kl_mean);
  read(object, "kl_p99", evaluation.kl_p99);
  read(object, "top1_agreement", evaluation.top1_agreement);
  read(object, "file_bytes", evaluation.file_bytes);
  read(object, "bits_per_weight", evaluation.bits_per_weight);
  return evaluation;
}

Benchmark parse_benchmark(const json& object) {
  Benchmark benchmark;
  const json& machine = object.at("machine");
  read(machine, "cpu", benchmark.cpu);
  read(machine, "simd_target", benchmark.simd_target);
  read(machine, "threads", benchmark.threads);
  read(machine, "read_gb_s", benchmark.read_gb_s);
  read(machine, "int8_gops", benchmark.int8_gops);
  for (const json& entry : object.at("results")) {
    BenchmarkResult& result = benchmark.results.emplace_back();
    read(entry, "test", result.test);
    read(entry, "tokens_per_second", result.tokens_per_second);
    read(entry, "stddev", result.stddev);
    read(entry, "fraction_of_limit", result.fraction_of_limit);
  }
  read(object, "load_seconds", benchmark.load_seconds);
  return benchmark;
}

}  // namespace

json row_json(const SweepRow& row) {
  json formats = json::array();
  for (const SweepFormat& format : row.formats) {
    formats.push_back({{"name", format.name}, {"weights", format.weights}, {"bytes", format.bytes}});
  }
  json object = {{"recipe", json::parse(row.recipe)}, {"formats", formats}};
  if (row.evaluation) {
    object["evaluation"] = json::parse(evaluation_json(*row.evaluation));
    object["evaluation"].erase("seconds");
  }
  if (row.benchmark) {
    object["benchmark"] = json::parse(benchmark_json(*row.benchmark));
    object["benchmark"].erase("peak_rss_bytes");  // of the process, so of all that the sweep did before, too
  }
  return object;
}

SweepRow parse_row(const json& object, const std::string& context) {
  try {
    SweepRow row;
    row.recipe = object.at("recipe").dump();
    for (const json& entry : object.at("formats")) {
      SweepFormat& format = row.formats.emplace_back();
      read(entry, "name", format.name);
      read(entry, "weights", format.weights);
      read(entry, "bytes", format.bytes);
    }
    if (object.contains("evaluation")) row.evaluation = parse_evaluation(object.at("evaluation"));
    if (object.contains("benchmark")) row.benchmark = parse_benchmark(object.at("benchmark"));
    return row;
  } catch (const json::exception&) {
    throw Error(context, "is not what a sweep writes: remove it, and it is measured again");
  }
}

}  // namespace ballast::eval
