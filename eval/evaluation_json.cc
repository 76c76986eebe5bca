#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "ballast/evaluate.h"
#include "eval/expert_json.h"
#include "eval/result_fields.h"

namespace ballast {
namespace {

using nlohmann::json;

void add(json& object, const char* name, const std::optional<double>& value) {
  if (value) object[name] = *value;
}

json segments_json(const Evaluation& evaluation) {
  json list = json::array();
  for (const StreamSegment& segment : evaluation.segments) {
    json& entry = list.emplace_back(json{{"first", segment.first}, {"tokens", segment.tokens}, {"ppl", segment.ppl}});
    add(entry, "kl_mean", segment.kl_mean);
  }
  return list;
}

json positions_json(const Evaluation& evaluation) {
  json list = json::array();
  for (const PositionRange& range : evaluation.positions) {
    json& entry = list.emplace_back(
        json{{"first", range.first}, {"last", range.last}, {"tokens", range.tokens}, {"ppl", range.ppl}});
    add(entry, "reference_ppl", range.reference_ppl);
    add(entry, "kl_mean", range.kl_mean);
  }
  return list;
}

json prediction_json(const Prediction& prediction) {
  return {{"id", prediction.id}, {"text", prediction.text}, {"probability", prediction.probability}};
}

json worst_json(const Evaluation& evaluation) {
  json list = json::array();
  for (const DivergentToken& token : evaluation.worst) {
    json next = prediction_json(token.next);
    next["reference_probability"] = token.reference_probability;
    list.push_back({{"chunk", token.chunk},
                    {"position", token.position},
                    {"context", token.context},
                    {"next", next},
                    {"top", prediction_json(token.top)},
                    {"reference_top", prediction_json(token.reference_top)},
                    {"kl", token.kl}});
  }
  return list;
}

}  // namespace

std::string evaluation_json(const Evaluation& evaluation) {
  json result = {{"seconds", evaluation.seconds}};
  eval::for_each_field(evaluation, eval::WriteField{result});
  if (evaluation.experts) result["experts"] = eval::expert_json(*evaluation.experts);
  if (!evaluation.segments.empty()) {
    result["segments"] = segments_json(evaluation);
    result["cache_bytes"] = evaluation.cache_bytes;
  }
  if (!evaluation.positions.empty()) result["positions"] = positions_json(evaluation);
  if (!evaluation.worst.empty()) result["worst"] = worst_json(evaluation);
  // A token may be a part of a character.
  return result.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace ballast
