#include "eval/sweep/sweep_row.h"

namespace ballast::eval {

namespace {

using nlohmann::json;

std::optional<double> optional_number(const files::JsonReader& object, std::string_view field) {
  return object.has(field) ? std::optional(object.number(field)) : std::nullopt;
}

Evaluation parse_evaluation(const files::JsonReader& object) {
  Evaluation evaluation;
  evaluation.chunks = object.count("chunks");
  evaluation.tokens = object.at("tokens").integer<std::size_t>();
  evaluation.ppl = object.number("ppl");
  evaluation.ppl_stderr = object.number("ppl_stderr");
  evaluation.reference_ppl = optional_number(object, "reference_ppl");
  evaluation.kl_mean = optional_number(object, "kl_mean");
  evaluation.kl_p99 = optional_number(object, "kl_p99");
  evaluation.top1_agreement = optional_number(object, "top1_agreement");
  evaluation.file_bytes = object.at("file_bytes").integer<std::uint64_t>();
  evaluation.bits_per_weight = object.number("bits_per_weight");
  return evaluation;
}

Benchmark parse_benchmark(const files::JsonReader& object) {
  Benchmark benchmark;
  const files::JsonReader machine = object.at("machine");
  benchmark.cpu = machine.text("cpu");
  benchmark.simd_target = machine.text("simd_target");
  benchmark.threads = machine.at("threads").integer<decltype(benchmark.threads)>();
  benchmark.read_gb_s = machine.number("read_gb_s");
  benchmark.peak_type = machine.text("peak_type");
  benchmark.peak_gops = machine.number("peak_gops");
  for (const files::JsonReader& entry : machine.at("engines").elements()) {
    benchmark.engines.push_back({.tokens = entry.at("tokens").integer<std::size_t>(),
                                 .engine = entry.text("engine"),
                                 .speed = entry.number("speed")});
  }
  benchmark.bf16_products = machine.at("bf16_products").boolean();
  for (const files::JsonReader& entry : object.at("results").elements()) {
    benchmark.results.push_back({.test = entry.text("test"),
                                 .tokens_per_second = entry.number("tokens_per_second"),
                                 .stddev = entry.number("stddev"),
                                 .gb_s = entry.number("gb_s"),
                                 .gop_s = entry.number("gop_s"),
                                 .fraction_of_limit = entry.number("fraction_of_limit")});
  }
  benchmark.load_seconds = object.number("load_seconds");
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
    object["benchmark"].erase("peak_rss_bytes");  // depends on everything that the process did before
  }
  return object;
}

SweepRow parse_row(const files::JsonReader& object) {
  SweepRow row;
  row.recipe = object.at("recipe").json().dump();
  for (const files::JsonReader& entry : object.at("formats").elements()) {
    row.formats.push_back({.name = entry.text("name"),
                           .weights = entry.at("weights").integer<std::uint64_t>(),
                           .bytes = entry.at("bytes").integer<std::uint64_t>()});
  }
  if (object.has("evaluation")) row.evaluation = parse_evaluation(object.at("evaluation"));
  if (object.has("benchmark")) row.benchmark = parse_benchmark(object.at("benchmark"));
  return row;
}

}  // namespace ballast::eval
