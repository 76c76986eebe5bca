#include "serve/api/outliers_format.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ballast/error.h"
#include "serve/api/openai_format.h"

namespace ballast::serve {
namespace {

using Json = nlohmann::ordered_json;

void check_model(const Statistics& statistics, const engine::LoadedModel& loaded, const std::string& context) {
  const ModelSpec& spec = loaded.model.spec();
  if (statistics.layers.size() == spec.layers.size() + 1) return;
  throw Error(context, "is of a model with " + std::to_string(statistics.layers.size() - 1) + " layers, this one has " +
                           std::to_string(spec.layers.size()));
}

Json channels_json(const Statistics& statistics) {
  Json channels = Json::array();
  for (const LayerStatistics& layer : statistics.layers) {
    for (const TopValue& top : layer.top) {
      const double magnitude = std::abs(top.value);
      if (!is_massive(magnitude, layer.median)) continue;
      channels.push_back(
          {{"layer", layer.layer}, {"channel", top.channel}, {"magnitude", magnitude}, {"median", layer.median}});
    }
  }
  return channels;
}

/// Returns the tokens of the model's conversion: the statistics may be of another calibration.
std::vector<int> massive_tokens(const Statistics& statistics, const model::ModelSource& source) {
  if (const auto& known = source.massive_tokens()) return *known;
  std::vector<int> tokens;
  for (const MassiveToken& token : statistics.massive_tokens) tokens.push_back(token.token);
  return tokens;
}

}  // namespace

Json outliers_json(const Statistics& statistics, const engine::LoadedModel& loaded, const std::string& context) {
  check_model(statistics, loaded, context);
  Json tokens = Json::array();
  for (const int id : massive_tokens(statistics, loaded.model.source())) {
    const bool named = id != MassiveToken::kFirst && loaded.own_tokenizer != nullptr;
    tokens.push_back({{"id", id == MassiveToken::kFirst ? Json() : Json(id)},
                      {"text", named ? Json(token_text(*loaded.own_tokenizer, id)) : Json()}});
  }
  return {{"massive_channels", channels_json(statistics)}, {"massive_tokens", std::move(tokens)}};
}

}  // namespace ballast::serve
