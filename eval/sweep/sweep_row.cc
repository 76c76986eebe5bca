#include "eval/sweep/sweep_row.h"

#include "eval/result_fields.h"

namespace ballast::eval {

namespace {

using nlohmann::json;

Evaluation parse_evaluation(const files::JsonReader& object) {
  Evaluation evaluation;
  for_each_field(evaluation, ReadField{object});
  return evaluation;
}

Benchmark parse_benchmark(const files::JsonReader& object) {
  Benchmark benchmark;
  for_each_machine_field(benchmark, ReadField{object.at("machine")});
  const ReadField read{object};
  read("results", benchmark.results);
  read("load_seconds", benchmark.load_seconds);
  return benchmark;
}

}  // namespace

json row_json(const SweepRow& row) {
  json object = {{"recipe", json::parse(row.recipe)}};
  WriteField{object}("formats", row.formats);
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
  ReadField{object}("formats", row.formats);
  if (object.has("evaluation")) row.evaluation = parse_evaluation(object.at("evaluation"));
  if (object.has("benchmark")) row.benchmark = parse_benchmark(object.at("benchmark"));
  return row;
}

}  // namespace ballast::eval
