// The fields of results that are written as JSON and read again: each name is here once.
#ifndef BALLAST_EVAL_RESULT_FIELDS_H_
#define BALLAST_EVAL_RESULT_FIELDS_H_

#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "ballast/benchmark.h"
#include "ballast/evaluate.h"
#include "ballast/sweep.h"
#include "files/json_reader.h"

namespace ballast::eval {

template <typename T, typename Result>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Result>;

// Each function below calls visit(name, member) for the fields of a result.

/// Without the lists, the experts and the time of the run.
template <MaybeConst<Evaluation> T, typename Visit>
void for_each_field(T& evaluation, const Visit& visit) {
  visit("chunks", evaluation.chunks);
  visit("tokens", evaluation.tokens);
  visit("ppl", evaluation.ppl);
  visit("ppl_stderr", evaluation.ppl_stderr);
  visit("reference_ppl", evaluation.reference_ppl);
  visit("kl_mean", evaluation.kl_mean);
  visit("kl_p99", evaluation.kl_p99);
  visit("top1_agreement", evaluation.top1_agreement);
  visit("file_bytes", evaluation.file_bytes);
  visit("bits_per_weight", evaluation.bits_per_weight);
}

template <MaybeConst<BenchmarkResult> T, typename Visit>
void for_each_field(T& result, const Visit& visit) {
  visit("test", result.test);
  visit("tokens_per_second", result.tokens_per_second);
  visit("stddev", result.stddev);
  visit("gb_s", result.gb_s);
  visit("gop_s", result.gop_s);
  visit("fraction_of_limit", result.fraction_of_limit);
}

template <MaybeConst<EngineChoice> T, typename Visit>
void for_each_field(T& choice, const Visit& visit) {
  visit("tokens", choice.tokens);
  visit("engine", choice.engine);
  visit("speed", choice.speed);
}

/// The fields of the JSON's "machine".
template <MaybeConst<Benchmark> T, typename Visit>
void for_each_machine_field(T& benchmark, const Visit& visit) {
  visit("cpu", benchmark.cpu);
  visit("simd_target", benchmark.simd_target);
  visit("threads", benchmark.threads);
  visit("read_gb_s", benchmark.read_gb_s);
  visit("peak_type", benchmark.peak_type);
  visit("peak_gops", benchmark.peak_gops);
  visit("engines", benchmark.engines);
  visit("bf16_products", benchmark.bf16_products);
}

template <MaybeConst<SweepFormat> T, typename Visit>
void for_each_field(T& format, const Visit& visit) {
  visit("name", format.name);
  visit("weights", format.weights);
  visit("bytes", format.bytes);
}

/// Writes a field into an object; an optional one without a value is left out.
struct WriteField {
  nlohmann::json& object;

  template <typename Value>
  void operator()(const char* name, const Value& value) const {
    object[name] = value;
  }
  template <typename Value>
  void operator()(const char* name, const std::optional<Value>& value) const {
    if (value) object[name] = *value;
  }
  template <typename Item>
  void operator()(const char* name, const std::vector<Item>& items) const {
    nlohmann::json& list = object[name] = nlohmann::json::array();
    for (const Item& item : items) for_each_field(item, WriteField{list.emplace_back(nlohmann::json::object())});
  }
};

/// Reads a field from an object; the inverse of WriteField. Throws Error.
struct ReadField {
  const files::JsonReader& object;

  void operator()(const char* name, double& value) const { value = object.number(name); }
  void operator()(const char* name, bool& value) const { value = object.flag(name); }
  void operator()(const char* name, std::string& value) const { value = object.text(name); }
  template <std::integral Integer>
  void operator()(const char* name, Integer& value) const {
    value = object.at(name).template integer<Integer>();
  }
  void operator()(const char* name, std::optional<double>& value) const {
    if (object.has(name)) value = object.number(name);
  }
  template <typename Item>
  void operator()(const char* name, std::vector<Item>& items) const {
    for (const files::JsonReader& entry : object.at(name).elements()) {
      for_each_field(items.emplace_back(), ReadField{entry});
    }
  }
};

}  // namespace ballast::eval

#endif  // BALLAST_EVAL_RESULT_FIELDS_H_
