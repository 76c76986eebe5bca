#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "report/calibration/figures.h"
#include "report/chart/line_chart.h"
#include "report/chart/table.h"
#include "report/chart/text.h"

namespace ballast::report {
namespace {

constexpr std::size_t kTopValues = 3;

double top_magnitude(const LayerStatistics& layer, std::size_t rank) {
  return rank < layer.top.size() ? std::abs(static_cast<double>(layer.top[rank].value)) : kMissing;
}

std::string sentence(const CalibrationSummary& findings) {
  if (!findings.massive()) {
    return paragraph(
        "No layer has a massive value: one is massive when its magnitude is above 100 and at least 1,000 times the "
        "median of its layer.");
  }
  const LargestValue& largest = *findings.largest;
  const bool one = findings.massive_layers.size() == 1;
  std::string text = "The largest value reaches " + number(std::abs(largest.value.value)) +
                     " where half of all values lie "
                     "below " +
                     number(largest.median) + ". " + (one ? "Layer " : "Layers ") + ranges(findings.massive_layers) +
                     (one ? " is" : " are") +
                     " massive (shaded): the largest magnitude is above 100 and at least 1,000 times the median.";
  return paragraph(text);
}

std::string table(const std::vector<LayerStatistics>& layers) {
  Table table("Magnitudes by layer: the numbers",
              {{"Layer"}, {"Largest"}, {"Channel"}, {"Token", false}, {"Second"}, {"Third"}, {"Median"}, {"Ratio"}});
  for (const LayerStatistics& layer : layers) {
    const double largest = top_magnitude(layer, 0);
    const bool any = !layer.top.empty();
    table.add_row({count(layer.layer), number(largest), any ? count(layer.top[0].channel) : "–",
                   any ? token_html(layer.top[0].token_text) + " at " + count(layer.top[0].position) : "–",
                   number(top_magnitude(layer, 1)), number(top_magnitude(layer, 2)), number(layer.median),
                   number(largest / layer.median) + (std::isfinite(largest / layer.median) ? "×" : "")});
  }
  return table.folded_html();
}

}  // namespace

std::string magnitude_figure(const Statistics& statistics, const CalibrationSummary& findings) {
  const std::vector<LayerStatistics>& layers = statistics.layers;
  if (layers.empty()) return nothing_recorded();
  LineChart chart;
  chart.id = "magnitudes";
  chart.text = {
      "Largest magnitudes and median by layer",
      "Line chart on a logarithmic scale: the three largest magnitudes and the median magnitude of each layer's "
      "output. The table below has the numbers."};
  chart.y_name = "magnitude";
  chart.first_layer = layers.front().layer;
  chart.series = {
      {"largest", 1, false, {}}, {"second", 4, false, {}}, {"third", 2, false, {}}, {"median", 0, false, {}}};
  for (const LayerStatistics& layer : layers) {
    for (std::size_t rank = 0; rank < kTopValues; ++rank) {
      chart.series[rank].values.push_back(top_magnitude(layer, rank));
    }
    chart.series[kTopValues].values.push_back(layer.median);
  }
  chart.shaded = findings.massive_layers;
  const std::string drawing = line_chart_html(chart);
  return sentence(findings) + (drawing.empty() ? nothing_recorded() : drawing) + table(layers);
}

}  // namespace ballast::report
