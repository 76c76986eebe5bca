#include <algorithm>
#include <cmath>

#include "report/calibration/figures.h"
#include "report/chart/heat_map.h"
#include "report/chart/table.h"
#include "report/chart/text.h"

namespace ballast::report {
namespace {

// Returns the scale from the median up to the largest magnitude; smaller values are not shown. Returns nullopt if no
// cell is positive.
std::optional<Scale> magnitude_scale(const std::vector<float>& magnitudes) {
  std::vector<double> positive;
  for (const double magnitude : magnitudes) {
    if (std::isfinite(magnitude) && magnitude > 0) positive.push_back(magnitude);
  }
  if (positive.empty()) return std::nullopt;
  std::ranges::sort(positive);
  return Scale::logarithmic(positive[positive.size() / 2], positive.back());
}

std::vector<HeatMap::Label> channel_labels(const std::vector<std::size_t>& channels) {
  constexpr std::size_t kMost = 12;
  const std::size_t distance = std::max<std::size_t>(1, channels.size() / kMost);
  std::vector<HeatMap::Label> labels;
  for (std::size_t column = 0; column < channels.size(); column += distance) {
    labels.emplace_back(column, std::to_string(channels[column]));
  }
  return labels;
}

std::vector<HeatMap::Label> massive_labels(const Statistics& statistics) {
  std::vector<HeatMap::Label> labels;
  const std::vector<std::size_t>& channels = statistics.map.channels;
  for (std::size_t column = 0; column < channels.size(); ++column) {
    if (std::ranges::find(statistics.massive_channels, channels[column], &MassiveChannel::channel) !=
        statistics.massive_channels.end()) {
      labels.emplace_back(column, std::to_string(channels[column]));
    }
  }
  return labels;
}

std::string row_tooltip(const ActivationMap& map, std::size_t row) {
  const auto begin = map.magnitudes.begin() + static_cast<std::ptrdiff_t>(row * map.channels.size());
  const auto end = begin + static_cast<std::ptrdiff_t>(map.channels.size());
  const auto largest = std::max_element(begin, end);
  return "token " + count(row) + " “" + shortened(visible(map.tokens[row]), 40) + "”\nlargest: " + number(*largest) +
         " in channel " + std::to_string(map.channels[static_cast<std::size_t>(largest - begin)]);
}

}  // namespace

std::string activation_map_figure(const Statistics& statistics) {
  const ActivationMap& map = statistics.map;
  const std::optional<Scale> scale = magnitude_scale(map.magnitudes);
  if (!scale || map.magnitudes.size() != map.tokens.size() * map.channels.size()) return nothing_recorded();
  HeatMap heat;
  heat.id = "activations";
  heat.text = {"Magnitude of activations over tokens and channels at layer " + count(map.layer),
               "Heat map: one row per token, one column per channel, magnitude by colour on a logarithmic scale. The "
               "table of massive channels and tokens lists the bright cells."};
  heat.rows = map.tokens.size();
  heat.columns = map.channels.size();
  heat.cells.assign(map.magnitudes.begin(), map.magnitudes.end());
  heat.scale = *scale;
  heat.scale_name = "magnitude";
  heat.value_text = round_number;
  heat.row_name = "token";
  heat.column_name = "channel";
  for (std::size_t row = 0; row < map.tokens.size(); ++row) heat.row_labels.push_back(visible(map.tokens[row]));
  heat.label_columns = 14;
  heat.column_labels = channel_labels(map.channels);
  heat.marked_columns = massive_labels(statistics);
  heat.most_row_height = 15;
  heat.tooltip = [&map](std::size_t row, std::size_t) { return row_tooltip(map, row); };
  heat.row_tooltips = true;
  return paragraph("The output of layer " + count(map.layer) + " for the first " +
                   counted(map.tokens.size(), "token", "tokens") +
                   " of one sample. Columns are the largest channels and an even sample of the others" +
                   (heat.marked_columns.empty() ? "" : "; the massive ones are named above") +
                   ". Values below the median are left blank. ␣ stands for a space.") +
         heat_map_html(heat);
}

}  // namespace ballast::report
