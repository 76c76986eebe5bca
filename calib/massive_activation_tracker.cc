#include "calib/massive_activation_tracker.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "files/json_reader.h"
#include "files/strict_json.h"
#include "files/utf8.h"

namespace ballast::calib {

namespace {

using nlohmann::json;

constexpr std::size_t kTopValues = 10;

// Size of the map for the report.
constexpr std::size_t kMapTokens = 32;
constexpr std::size_t kMapLargestChannels = 16;
constexpr std::size_t kMapChannels = 80;

std::set<std::size_t> sample_set(const files::JsonReader& list) {
  const std::vector<std::size_t> samples = list.integers<std::size_t>();
  return {samples.begin(), samples.end()};
}

}  // namespace

LayerStatistics MassiveActivationTracker::add(std::size_t layer, const OutputMagnitudes& output, const RowsOf& rows) {
  LayerStatistics statistics;
  statistics.layer = layer;
  statistics.median = output.median();
  for (const Peak& peak : output.top(kTopValues)) statistics.top.push_back(top_value(layer, peak));
  const TopValue& largest = statistics.top.front();
  statistics.massive = is_massive(std::abs(largest.value), statistics.median);
  for (const Peak& peak : output.massive()) {
    const std::size_t sample = peak.row / length();
    const std::size_t position = peak.row % length();
    massive_channels_[peak.channel].insert(sample);
    if (in_encoder(layer)) continue;  // the list is for the cache of the decoder's text
    const bool first = position == 0 && prefix_.empty();
    const int token = first ? MassiveToken::kFirst : token_at(layer, sample, position);
    MassiveSeen& seen = massive_tokens_[token];
    seen.position = seen.samples.empty() ? position : std::min(seen.position, position);
    seen.samples.insert(sample);
  }
  if (std::abs(largest.value) > map_.largest) {
    const std::size_t tokens = std::min(kMapTokens, length());
    map_ = {std::abs(largest.value), layer, largest.sample, rows(largest.sample, tokens)};
  }
  return statistics;
}

/// Returns the token of a row after a layer; 0 is the embedding of the first layer's text.
int MassiveActivationTracker::token_at(std::size_t layer, std::size_t sample, std::size_t position) const {
  if (!encoder_ || in_encoder(layer)) return samples_[sample][position];
  return position == 0 ? encoder_->start_token : samples_[sample][position - 1];
}

TopValue MassiveActivationTracker::top_value(std::size_t layer, const Peak& peak) const {
  TopValue value;
  value.value = peak.value;
  value.sample = peak.row / length();
  value.position = peak.row % length();
  value.token = token_at(layer, value.sample, value.position);
  value.token_text = token_text(value.token);
  value.channel = peak.channel;
  return value;
}

std::string MassiveActivationTracker::token_text(int token) const {
  return tokenizer_ == nullptr ? "" : files::replace_invalid_utf8(tokenizer_->token_bytes(token));
}

void MassiveActivationTracker::describe(Statistics& statistics) const {
  for (const auto& [channel, samples] : massive_channels_) {
    statistics.massive_channels.push_back({.channel = channel, .samples = samples.size()});
  }
  for (const auto& [token, seen] : massive_tokens_) {
    statistics.massive_tokens.push_back({.token = token,
                                         .position = seen.position,
                                         .token_text = token == MassiveToken::kFirst ? "" : token_text(token),
                                         .samples = seen.samples.size()});
  }
  std::ranges::stable_sort(statistics.massive_tokens, std::ranges::greater{}, &MassiveToken::samples);
  statistics.map = draw_map();
}

ActivationMap MassiveActivationTracker::draw_map() const {
  const std::size_t tokens = std::min(kMapTokens, length());
  const std::size_t width = map_.rows.size() / tokens;
  std::vector<std::pair<float, std::size_t>> largest;
  for (std::size_t c = 0; c < width; ++c) {
    float absmax = 0;
    for (std::size_t t = 0; t < tokens; ++t) absmax = std::max(absmax, std::abs(map_.rows[t * width + c]));
    largest.emplace_back(absmax, c);
  }
  std::ranges::stable_sort(largest, std::ranges::greater{}, &std::pair<float, std::size_t>::first);
  std::set<std::size_t> channels;
  for (std::size_t i = 0; i < std::min(kMapLargestChannels, largest.size()); ++i) channels.insert(largest[i].second);
  const std::size_t step = std::max<std::size_t>(1, width / (kMapChannels - kMapLargestChannels));
  for (std::size_t c = 0; c < width && channels.size() < kMapChannels; c += step) channels.insert(c);

  ActivationMap map;
  map.layer = map_.layer;
  map.channels.assign(channels.begin(), channels.end());
  for (std::size_t t = 0; t < tokens; ++t) {
    map.tokens.push_back(token_text(samples_[map_.sample][t]));
    for (const std::size_t c : channels) map.magnitudes.push_back(std::abs(map_.rows[t * width + c]));
  }
  return map;
}

void MassiveActivationTracker::save(jobs::SavedArrays& arrays) const {
  json tokens = json::array();
  for (const auto& [token, seen] : massive_tokens_) tokens.push_back({token, seen.position, seen.samples});
  json channels = json::array();
  for (const auto& [channel, samples] : massive_channels_) channels.push_back({channel, samples});
  const json map = {map_.largest, map_.layer, map_.sample, map_.rows.size()};
  arrays.add_text(json{{"channels", channels}, {"tokens", tokens}, {"map", map}}.dump());
  arrays.add(map_.rows);
}

void MassiveActivationTracker::restore(jobs::SavedArraysReader& arrays) {
  const std::string context = "saved progress";
  const json all = files::parse_strict_json(arrays.text(), context);
  const files::JsonReader reader(all, context);
  massive_channels_.clear();
  for (const files::JsonReader& entry : reader.at("channels").elements()) {
    const std::vector<files::JsonReader> values = entry.tuple(2);
    massive_channels_[values[0].integer<std::size_t>()] = sample_set(values[1]);
  }
  massive_tokens_.clear();
  for (const files::JsonReader& entry : reader.at("tokens").elements()) {
    const std::vector<files::JsonReader> values = entry.tuple(3);
    massive_tokens_[values[0].integer<int>()] = {values[1].integer<std::size_t>(), sample_set(values[2])};
  }
  const std::vector<files::JsonReader> map = reader.at("map").tuple(4);
  map_ = {static_cast<float>(map[0].number()), map[1].integer<std::size_t>(), map[2].integer<std::size_t>(), {}};
  map_.rows.resize(map[3].integer<std::size_t>());
  arrays.get(map_.rows);
}

}  // namespace ballast::calib
