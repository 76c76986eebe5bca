#include "report/calibration/calibration_summary.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "report/chart/text.h"

namespace ballast::report {
namespace {

// A linear's name without its numbers: "model.layers.3.mlp.experts.5.up_proj" has layer 3, and every later number
// becomes "*".
struct LinearName {
  std::optional<std::size_t> layer;
  std::vector<std::string> parts;
};

LinearName parse(std::string_view name) {
  LinearName parsed;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string part(name.substr(begin, end - begin));
    const bool is_number =
        !part.empty() && part.size() < 5 && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    if (is_number && !parsed.layer) {
      parsed.layer = std::stoul(part);
      parsed.parts.clear();  // "model.layers." adds nothing to the layer's number
    } else {
      parsed.parts.push_back(is_number ? "*" : part);
    }
    begin = end + 1;
  }
  return parsed;
}

std::string joined(const std::vector<std::string>& parts, std::size_t from) {
  std::string text;
  for (std::size_t i = from; i < parts.size(); ++i) text += (i > from ? "." : "") + parts[i];
  return text;
}

// Names the linears of one input: the first by its whole name, the others by their differences.
std::string kind_name(const std::vector<std::string>& linears) {
  std::vector<std::string> names;
  const std::vector<std::string> first = linears.empty() ? std::vector<std::string>{} : parse(linears[0]).parts;
  for (const std::string& linear : linears) {
    const std::vector<std::string> parts = parse(linear).parts;
    std::size_t shared = 0;
    while (!names.empty() && shared + 1 < std::min(parts.size(), first.size()) && parts[shared] == first[shared]) {
      ++shared;
    }
    std::string name = joined(parts, shared);
    if (std::ranges::find(names, name) == names.end() && (names.empty() || parts != first)) {
      names.push_back(std::move(name));
    }
  }
  constexpr std::size_t kShown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kShown) text += " + " + count(names.size() - kShown) + " more";
  return text.empty() ? "unnamed" : text;
}

std::size_t channels_of(const LinearInputStatistics& input) {
  return input.channels.max.size();
}

// Finds the largest value in the massive layers, or in all layers if there are none.
std::optional<LargestValue> largest_value(const std::vector<LayerStatistics>& layers) {
  const bool any_massive = std::ranges::any_of(layers, &LayerStatistics::massive);
  std::optional<LargestValue> largest;
  for (const LayerStatistics& layer : layers) {
    if (layer.massive != any_massive || layer.top.empty() || !std::isfinite(layer.top[0].value)) continue;
    if (!largest || std::abs(layer.top[0].value) > std::abs(largest->value.value)) {
      largest = LargestValue{layer.top[0], layer.layer, layer.median};
    }
  }
  return largest;
}

std::vector<LinearKind> linear_kinds(const std::vector<LinearInputStatistics>& inputs) {
  std::vector<LinearKind> kinds;
  for (const LinearInputStatistics& input : inputs) {
    if (channels_of(input) == 0) continue;
    const std::string first = input.linears.empty() ? "" : input.linears[0];
    const std::optional<std::size_t> index = parse(first).layer;
    const std::size_t layer = index.has_value() ? index.value() + 1 : 0;
    std::string name = kind_name(input.linears);
    auto kind = std::ranges::find(kinds, name, &LinearKind::name);
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {std::move(name), layer > 0, {}});
    kind->inputs.push_back({layer, first, input.absmax_ratio(), channels_of(input), input.outlier_channels().size()});
  }
  return kinds;
}

}  // namespace

double LargestValue::ratio() const {
  return std::abs(static_cast<double>(value.value)) / median;
}

CalibrationSummary::CalibrationSummary(const Statistics& statistics)
    : largest(largest_value(statistics.layers)), kinds(linear_kinds(statistics.inputs)) {
  for (const LayerStatistics& layer : statistics.layers) {
    if (layer.massive) massive_layers.push_back(layer.layer);
  }
  // The first linear of the forward pass reads the residual stream.
  if (!statistics.inputs.empty()) residual_channels = channels_of(statistics.inputs[0]);
  if (statistics.heads > 0) attention_layers = statistics.sink_share.size() / statistics.heads;
  sink_heads = static_cast<std::size_t>(
      std::ranges::count_if(statistics.sink_share, [](float share) { return share >= kSinkShare; }));
  for (const LinearKind& kind : kinds) {
    inputs += kind.inputs.size();
    inputs_with_outliers += static_cast<std::size_t>(
        std::ranges::count_if(kind.inputs, [](const InputSummary& input) { return input.outliers > 0; }));
  }
}

std::optional<ChannelRange> channel_range(const ChannelStatistics& channels) {
  if (channels.max.empty()) return std::nullopt;
  std::vector<double> magnitudes(channels.max.size());
  for (std::size_t i = 0; i < magnitudes.size(); ++i) {
    const double magnitude = channels.absmax(i);
    magnitudes[i] = std::isfinite(magnitude) ? magnitude : 0;  // NaN has no order
  }
  const auto largest = std::ranges::max_element(magnitudes);
  ChannelRange range{static_cast<std::size_t>(largest - magnitudes.begin()), *largest, 0};
  const auto middle = magnitudes.begin() + static_cast<std::ptrdiff_t>(magnitudes.size() / 2);
  std::ranges::nth_element(magnitudes, middle);
  range.median = *middle;
  return range;
}

std::string massive_places(const Statistics& statistics) {
  const std::vector<MassiveToken>& all = statistics.massive_tokens;
  const auto is_first = [](const MassiveToken& token) { return token.token == MassiveToken::kFirst; };
  const auto repeats = [](const MassiveToken& token) { return token.samples > 1; };
  const bool first = std::ranges::any_of(all, is_first);
  const bool only_repeating = first || std::ranges::any_of(all, repeats);
  std::vector<std::string> tokens;
  for (const MassiveToken& token : all) {
    if (is_first(token) || (only_repeating && !repeats(token))) continue;
    tokens.push_back("“" + shortened(visible(token.token_text), 24) + "”");
  }
  const std::string others = tokens.empty() ? "" : "at " + listed(tokens, 3);
  if (!first) return others;
  return others.empty() ? "at the first token" : "at the first token and " + others;
}

}  // namespace ballast::report
