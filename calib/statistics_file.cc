#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "ballast/error.h"
#include "ballast/statistics.h"
#include "files/atomic_output.h"
#include "files/format_version.h"
#include "files/json_reader.h"
#include "files/mapped_file.h"
#include "files/safetensors/safetensors_bytes.h"
#include "files/safetensors/safetensors_file.h"
#include "files/strict_json.h"
#include "jobs/written_by.h"

namespace ballast {

namespace {

using nlohmann::json;

constexpr std::size_t kVersion = 2;
constexpr const char* kTokens = "samples.tokens";
constexpr const char* kMetadata = "ballast.statistics";

static_assert(sizeof(int) == 4);

// Visits the vectors of a ChannelStatistics by their names in the file.
template <typename Channels, typename Visit>
void for_each_vector(Channels& channels, const std::string& prefix, const Visit& visit) {
  visit(prefix + ".min", channels.min);
  visit(prefix + ".max", channels.max);
  visit(prefix + ".mean", channels.mean);
  visit(prefix + ".mean_square", channels.mean_square);
  visit(prefix + ".ordinary_absmax", channels.ordinary_absmax);
}

template <typename AnyStatistics, typename Visit>
void for_each_vector(AnyStatistics& statistics, const Visit& visit) {
  visit("sink_share", statistics.sink_share);
  visit("map", statistics.map.magnitudes);
  for (std::size_t i = 0; i < statistics.inputs.size(); ++i) {
    for_each_vector(statistics.inputs[i].channels, "inputs." + std::to_string(i), visit);
  }
  for (std::size_t i = 0; i < statistics.key_values.size(); ++i) {
    for_each_vector(statistics.key_values[i].keys, "keys." + std::to_string(i), visit);
    for_each_vector(statistics.key_values[i].values, "values." + std::to_string(i), visit);
  }
}

json top_value_json(const TopValue& top) {
  return {{"value", top.value}, {"sample", top.sample},         {"position", top.position},
          {"token", top.token}, {"token_text", top.token_text}, {"channel", top.channel}};
}

json metadata_json(const Statistics& statistics) {
  json layers = json::array();
  for (const LayerStatistics& layer : statistics.layers) {
    json top = json::array();
    for (const TopValue& value : layer.top) top.push_back(top_value_json(value));
    layers.push_back({{"layer", layer.layer}, {"median", layer.median}, {"massive", layer.massive}, {"top", top}});
  }
  json channels = json::array();
  for (const MassiveChannel& channel : statistics.massive_channels) {
    channels.push_back({{"channel", channel.channel}, {"samples", channel.samples}});
  }
  json tokens = json::array();
  for (const MassiveToken& token : statistics.massive_tokens) {
    tokens.push_back({{"token", token.token},
                      {"position", token.position},
                      {"token_text", token.token_text},
                      {"samples", token.samples}});
  }
  json inputs = json::array();
  for (const LinearInputStatistics& input : statistics.inputs) inputs.push_back(input.linears);
  json metadata = {
      {"version", kVersion},
      {files::kWrittenByField, jobs::written_by()},
      {"model", statistics.model},
      {"text", statistics.text},
      {"samples", statistics.samples},
      {"length", statistics.length},
      {"seed", statistics.seed},
      {"heads", statistics.heads},
      {"layers", layers},
      {"massive_channels", channels},
      {"massive_tokens", tokens},
      {"inputs", inputs},
      {"map",
       {{"layer", statistics.map.layer}, {"tokens", statistics.map.tokens}, {"channels", statistics.map.channels}}}};
  if (!statistics.prefix.empty()) metadata["prefix"] = statistics.prefix;
  for (const ExpertStatistics& experts : statistics.experts) {
    metadata["experts"].push_back({{"layer", experts.layer},
                                   {"columns", experts.columns},
                                   {"tokens", experts.tokens},
                                   {"stand_ins", experts.stand_ins}});
  }
  return metadata;
}

LayerStatistics parse_layer(const files::JsonReader& layer) {
  LayerStatistics statistics{
      layer.at("layer").integer<std::size_t>(), layer.number("median"), {}, layer.flag("massive")};
  for (const files::JsonReader& top : layer.at("top").elements()) {
    statistics.top.push_back({static_cast<float>(top.number("value")), top.at("sample").integer<std::size_t>(),
                              top.at("position").integer<std::size_t>(), top.at("token").integer<int>(),
                              top.text("token_text"), top.at("channel").integer<std::size_t>()});
  }
  return statistics;
}

void parse_massive(const files::JsonReader& metadata, Statistics& statistics) {
  for (const files::JsonReader& channel : metadata.at("massive_channels").elements()) {
    statistics.massive_channels.push_back(
        {channel.at("channel").integer<std::size_t>(), channel.at("samples").integer<std::size_t>()});
  }
  for (const files::JsonReader& token : metadata.at("massive_tokens").elements()) {
    statistics.massive_tokens.push_back({token.at("token").integer<int>(), token.at("position").integer<std::size_t>(),
                                         token.text("token_text"), token.at("samples").integer<std::size_t>()});
  }
}

std::vector<ExpertStatistics> parse_experts(const files::JsonReader& list) {
  std::vector<ExpertStatistics> experts;
  for (const files::JsonReader& entry : list.elements()) {
    ExpertStatistics& layer = experts.emplace_back();
    layer.layer = entry.at("layer").integer<std::size_t>();
    layer.columns = entry.at("columns").integer<std::size_t>();
    layer.tokens = entry.at("tokens").integers<std::uint64_t>(0);
    layer.stand_ins = entry.at("stand_ins").integers<std::uint64_t>(0);
    if (layer.tokens.size() != layer.stand_ins.size()) entry.fail("tokens and stand_ins must be as many");
  }
  return experts;
}

Statistics parse_metadata(const files::JsonReader& metadata) {
  Statistics statistics;
  statistics.model = metadata.text("model");
  statistics.text = metadata.text("text");
  statistics.samples = metadata.count("samples");
  statistics.length = metadata.count("length");
  statistics.seed = metadata.at("seed").integer<std::uint64_t>();
  statistics.heads = metadata.count("heads");
  if (metadata.has("prefix")) statistics.prefix = metadata.at("prefix").integers<int>(0);
  if (metadata.has("experts")) statistics.experts = parse_experts(metadata.at("experts"));
  for (const files::JsonReader& layer : metadata.at("layers").elements()) {
    statistics.layers.push_back(parse_layer(layer));
  }
  parse_massive(metadata, statistics);
  for (const files::JsonReader& linears : metadata.at("inputs").elements()) {
    statistics.inputs.push_back({linears.strings(), {}});
  }
  statistics.key_values.resize(statistics.layers.empty() ? 0 : statistics.layers.size() - 1);
  const files::JsonReader map = metadata.at("map");
  statistics.map.layer = map.at("layer").integer<std::size_t>();
  statistics.map.tokens = map.at("tokens").strings();
  statistics.map.channels = map.at("channels").integers<std::size_t>();
  return statistics;
}

template <typename T>
std::vector<T> copy_of(const files::SafetensorsContent& content, const std::string& name, DType dtype,
                       std::string_view context) {
  const auto found = content.tensors.find(name);
  const std::string tensor = std::string(context) + ": " + name;
  if (found == content.tensors.end()) throw Error(tensor, "is missing: calibrate again");
  const TensorView& view = found->second;
  if (view.dtype != dtype) throw Error(tensor, "must be " + std::string(dtype_info(dtype).name));
  std::vector<T> values(view.bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  return values;
}

void check_consistent(const Statistics& statistics, const std::string& context) {
  const auto check = [&](const ChannelStatistics& channels) {
    const std::size_t size = channels.min.size();
    if (size == 0 || channels.max.size() != size || channels.mean.size() != size ||
        channels.mean_square.size() != size || channels.ordinary_absmax.size() != size) {
      throw Error(context, "the statistics' vectors differ in length: calibrate again");
    }
  };
  for (const LinearInputStatistics& input : statistics.inputs) check(input.channels);
  for (const KeyValueStatistics& layer : statistics.key_values) {
    if (layer.keys.min.empty() && layer.values.min.empty()) continue;  // a layer without attention
    check(layer.keys);
    check(layer.values);
  }
  if (statistics.length < 2 || std::ranges::any_of(statistics.tokens, [](int token) { return token < 0; })) {
    throw Error(context, "its samples hold no text: calibrate again");
  }
  if (statistics.samples == 0 || statistics.tokens.size() / statistics.samples != statistics.length ||
      statistics.tokens.size() % statistics.samples != 0) {
    throw Error(context, "holds " + std::to_string(statistics.tokens.size()) + " tokens, not " +
                             std::to_string(statistics.samples) + " samples of " + std::to_string(statistics.length) +
                             ": calibrate again");
  }
  if (statistics.map.magnitudes.size() != statistics.map.tokens.size() * statistics.map.channels.size() ||
      statistics.sink_share.size() != statistics.key_values.size() * statistics.heads) {
    throw Error(context, "the statistics' tables do not have the size they state: calibrate again");
  }
}

}  // namespace

std::string serialize_statistics(const Statistics& statistics) {
  // Views of what `statistics` holds.
  std::map<std::string, TensorView> tensors;
  const auto rows = static_cast<std::int64_t>(statistics.samples);
  const std::span<const int> tokens = statistics.tokens;
  tensors[kTokens] = {
      DType::kI32, {rows, rows == 0 ? 0 : static_cast<std::int64_t>(tokens.size()) / rows}, std::as_bytes(tokens)};
  for_each_vector(statistics, [&](const std::string& name, const std::vector<float>& values) {
    tensors[name] = {DType::kF32, {static_cast<std::int64_t>(values.size())}, std::as_bytes(std::span(values))};
  });
  const std::string metadata = metadata_json(statistics).dump(-1, ' ', false, json::error_handler_t::replace);
  return files::safetensors_bytes(tensors, {{kMetadata, metadata}});
}

Statistics parse_statistics(std::string_view file, std::string_view context) {
  const files::SafetensorsContent content = files::parse_safetensors(std::as_bytes(std::span(file)), context);
  const auto metadata = content.metadata.find(kMetadata);
  if (metadata == content.metadata.end()) throw Error(context, "is not a statistics file of ballast calibrate");
  const std::string place = std::string(context) + ": " + kMetadata;
  const json parsed = files::parse_strict_json(metadata->second, place);
  const files::JsonReader reader(parsed, place);
  files::check_format_version(reader, kVersion, "calibrate again");
  Statistics statistics = parse_metadata(reader);
  for_each_vector(statistics, [&](const std::string& name, std::vector<float>& values) {
    values = copy_of<float>(content, name, DType::kF32, context);
  });
  statistics.tokens = copy_of<int>(content, kTokens, DType::kI32, context);
  check_consistent(statistics, std::string(context));
  return statistics;
}

void save_statistics(const Statistics& statistics, const std::filesystem::path& path, bool replace) {
  files::write_file_atomically(path, serialize_statistics(statistics), replace);
}

Statistics load_statistics(const std::filesystem::path& path) {
  const files::MappedFile file(path);
  Statistics statistics = parse_statistics(file.text(), path.string());
  file.check_whole();
  return statistics;
}

std::string statistics_json(const Statistics& statistics) {
  constexpr std::size_t kTopShown = 3;
  json layers = json::array();
  for (const LayerStatistics& layer : statistics.layers) {
    json top = json::array();
    for (std::size_t i = 0; i < std::min(kTopShown, layer.top.size()); ++i) {
      const TopValue& value = layer.top[i];
      top.push_back({{"value", value.value},
                     {"sample", value.sample},
                     {"position", value.position},
                     {"token", value.token_text},
                     {"channel", value.channel}});
    }
    layers.push_back({{"layer", layer.layer}, {"median", layer.median}, {"top", top}, {"massive", layer.massive}});
  }
  json channels = json::array();
  for (const MassiveChannel& channel : statistics.massive_channels) channels.push_back(channel.channel);
  json tokens = json::array();
  for (const MassiveToken& token : statistics.massive_tokens) {
    tokens.push_back(
        {{"token", token.token}, {"position", token.position}, {"text", token.token_text}, {"samples", token.samples}});
  }
  json sinks = json::array();
  for (std::size_t i = 0; i < statistics.sink_share.size(); ++i) {
    if (statistics.sink_share[i] < kSinkShare) continue;
    sinks.push_back(
        {{"layer", i / statistics.heads + 1}, {"head", i % statistics.heads}, {"share", statistics.sink_share[i]}});
  }
  json linears = json::array();
  for (const LinearInputStatistics& input : statistics.inputs) {
    for (const std::string& name : input.linears) {
      linears.push_back(
          {{"name", name}, {"absmax_ratio", input.absmax_ratio()}, {"outlier_channels", input.outlier_channels()}});
    }
  }
  json experts = json::array();
  for (const ExpertStatistics& layer : statistics.experts) {
    experts.push_back({{"layer", layer.layer},
                       {"tokens", layer.tokens},
                       {"stand_ins", layer.stand_ins},
                       {"entropy", layer.entropy()},
                       {"starved", layer.starved()}});
  }
  json result = {{"layers", layers},
                 {"massive_channels", channels},
                 {"massive_tokens", tokens},
                 {"sink_heads", sinks},
                 {"linears", linears},
                 {"samples", statistics.samples},
                 {"length", statistics.length},
                 {"prefix", statistics.prefix}};
  if (!experts.empty()) result["experts"] = experts;
  return result.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace ballast
