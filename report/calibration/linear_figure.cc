#include <algorithm>
#include <cmath>
#include <limits>

#include "report/calibration/figures.h"
#include "report/chart/colours.h"
#include "report/chart/heat_map.h"
#include "report/chart/line_chart.h"
#include "report/chart/table.h"
#include "report/chart/text.h"

namespace ballast::report {
namespace {

std::vector<const LinearKind*> layered_kinds(const CalibrationSummary& findings) {
  std::vector<const LinearKind*> kinds;
  for (const LinearKind& kind : findings.kinds) {
    if (kind.layered) kinds.push_back(&kind);
  }
  return kinds;
}

std::size_t last_layer(const std::vector<const LinearKind*>& kinds) {
  std::size_t last = 0;
  for (const LinearKind* kind : kinds) {
    for (const InputSummary& input : kind->inputs) last = std::max(last, input.layer);
  }
  return last;
}

// Returns one value per layer; the largest if a layer has several inputs of the kind, as with experts.
template <typename Figure>
std::vector<double> by_layer(const LinearKind& kind, std::size_t layers, Figure figure) {
  std::vector<double> values(layers, kMissing);
  for (const InputSummary& input : kind.inputs) {
    double& value = values[input.layer - 1];
    const double candidate = figure(input);
    if (!(value >= candidate)) value = candidate;
  }
  return values;
}

std::string ratio_chart(const std::vector<const LinearKind*>& kinds, std::size_t layers) {
  LineChart chart;
  chart.id = "ratios";
  chart.text = {"Largest input channel over the median input channel, by layer and kind of linear",
                "Line chart on a logarithmic scale with a line per kind of linear. The table below sums it up."};
  chart.y_name = "largest channel / median channel";
  chart.unit = "×";
  chart.first_layer = 1;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    chart.series.push_back({kinds[i]->name, i % kLineColours, i >= kLineColours,
                            by_layer(*kinds[i], layers, [](const InputSummary& input) { return input.ratio; })});
  }
  return line_chart_html(chart);
}

// Returns the names without "self_attn." if they remain distinct, because labels have little room.
std::vector<std::string> short_names(const std::vector<const LinearKind*>& kinds) {
  std::vector<std::string> names;
  for (const LinearKind* kind : kinds) {
    const std::size_t first_end = std::min(kind->name.find(','), kind->name.size());
    const std::size_t dot = kind->name.rfind('.', first_end);
    names.push_back(dot == std::string::npos ? kind->name : kind->name.substr(dot + 1));
  }
  std::vector<std::string> sorted = names;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) == sorted.end()) return names;
  for (std::size_t i = 0; i < kinds.size(); ++i) names[i] = kinds[i]->name;
  return names;
}

std::string outlier_map(const std::vector<const LinearKind*>& kinds, std::size_t layers) {
  HeatMap heat;
  heat.id = "outliers";
  heat.text = {
      "Outlier channels by layer and kind of linear",
      "Heat map: one row per kind of linear, one column per layer, coloured by how many of the input's channels "
      "are outliers. The table below sums it up."};
  heat.rows = kinds.size();
  heat.columns = layers;
  for (const LinearKind* kind : kinds) {
    const std::vector<double> outliers =
        by_layer(*kind, layers, [](const InputSummary& input) { return static_cast<double>(input.outliers); });
    heat.cells.insert(heat.cells.end(), outliers.begin(), outliers.end());
  }
  heat.row_labels = short_names(kinds);
  double most = 1;
  for (const double cell : heat.cells) most = std::isfinite(cell) ? std::max(most, cell) : most;
  heat.scale = Scale::linear(0, most);
  heat.scale_name = "outlier channels";
  heat.value_text = [](double value) { return value == std::floor(value) ? round_number(value) : std::string(); };
  heat.row_name = "linear";
  heat.column_name = "layer";
  heat.label_columns = 22;
  for (const std::size_t layer : whole_ticks(1, layers, 20)) heat.column_labels.emplace_back(layer - 1, count(layer));
  heat.tooltip = [cells = heat.cells, kinds, layers](std::size_t row, std::size_t column) {
    const double cell = cells[row * layers + column];
    if (!std::isfinite(cell)) return std::string();
    return kinds[row]->name + "\nlayer " + count(column + 1) + ": " +
           counted(static_cast<std::size_t>(cell), "outlier channel", "outlier channels");
  };
  return heat_map_html(heat);
}

std::string table(const CalibrationSummary& findings) {
  Table table("By kind of linear", {{"Input of", false},
                                    {"Inputs"},
                                    {"Channels"},
                                    {"Median ratio"},
                                    {"Largest ratio"},
                                    {"In layer"},
                                    {"Outliers"},
                                    {"Most in one input"}});
  for (const LinearKind& kind : findings.kinds) {
    std::vector<double> ratios;
    std::size_t outliers = 0;
    for (const InputSummary& input : kind.inputs) {
      if (std::isfinite(input.ratio)) ratios.push_back(input.ratio);
      outliers += input.outliers;
    }
    std::ranges::sort(ratios);
    const auto largest = std::ranges::max_element(
        kind.inputs, {}, [](const InputSummary& input) { return std::isfinite(input.ratio) ? input.ratio : 0; });
    const auto most = std::ranges::max_element(kind.inputs, {}, &InputSummary::outliers);
    table.add_row({"<code>" + escape(kind.name) + "</code>", count(kind.inputs.size()), count(largest->channels),
                   ratios.empty() ? "–" : number(ratios[ratios.size() / 2]) + "×",
                   ratios.empty() ? "–" : number(ratios.back()) + "×", largest->layer > 0 ? count(largest->layer) : "–",
                   count(outliers), count(most->outliers)});
  }
  return table.html();
}

}  // namespace

std::string linear_figure(const CalibrationSummary& findings) {
  if (findings.kinds.empty()) return nothing_recorded();
  std::string html = paragraph(
      "The input of each linear: the absolute maximum of its largest input channel over that of its median channel, "
      "all "
      "tokens counted. A channel is an <em>outlier</em> when its maximum on ordinary tokens is at least " +
      round_number(LinearInputStatistics::kOutlierRatio) + " times the median channel's. <strong>" +
      count(findings.inputs_with_outliers) + " of " + counted(findings.inputs, "input", "inputs") + "</strong> " +
      (findings.inputs_with_outliers == 1 ? "has" : "have") + " such channels.");
  const std::vector<const LinearKind*> kinds = layered_kinds(findings);
  if (const std::size_t layers = last_layer(kinds); layers > 0) {
    const std::string ratios = ratio_chart(kinds, layers);
    html += ratios.empty() ? nothing_recorded() : ratios;
    html += outlier_map(kinds, layers);
  }
  return html + table(findings);
}

}  // namespace ballast::report
