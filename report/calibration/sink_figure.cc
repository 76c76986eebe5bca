#include <algorithm>
#include <cmath>

#include "report/calibration/figures.h"
#include "report/chart/heat_map.h"
#include "report/chart/table.h"
#include "report/chart/text.h"

namespace ballast::report {
namespace {

std::string sentence(const Statistics& statistics, const CalibrationSummary& findings) {
  const std::size_t heads = statistics.sink_share.size();
  const std::string limit = percent(kSinkShare);
  if (findings.sink_heads == 0) {
    return paragraph("No head of " + count(heads) + " gives " + limit +
                     " or more of its attention to the first token on average: there are no attention sinks there.");
  }
  return paragraph(
      "<strong>" + count(findings.sink_heads) + " of " + counted(heads, "head", "heads") + "</strong> " +
      (findings.sink_heads == 1 ? "gives " : "give ") + limit +
      " or more of their attention to the first token, averaged over all later tokens. They leave there the "
      "attention that they do not need elsewhere.");
}

std::string table(const Statistics& statistics, const CalibrationSummary& findings) {
  Table table("Sinks by layer: the numbers", {{"Layer"}, {"Sink heads"}, {"Largest share"}, {"Head"}, {"Mean share"}});
  for (std::size_t layer = 0; layer < findings.attention_layers; ++layer) {
    const auto begin = statistics.sink_share.begin() + static_cast<std::ptrdiff_t>(layer * statistics.heads);
    const auto end = begin + static_cast<std::ptrdiff_t>(statistics.heads);
    const auto largest = std::max_element(begin, end);
    double sum = 0;
    std::size_t sinks = 0;
    for (auto share = begin; share != end; ++share) {
      sum += *share;
      sinks += *share >= kSinkShare ? 1 : 0;
    }
    table.add_row({count(layer + 1), count(sinks), percent(*largest), count(static_cast<std::size_t>(largest - begin)),
                   percent(sum / static_cast<double>(statistics.heads))});
  }
  return table.folded_html();
}

}  // namespace

std::string sink_figure(const Statistics& statistics, const CalibrationSummary& findings) {
  const std::size_t heads = statistics.heads;
  const std::size_t layers = findings.attention_layers;
  if (layers == 0 || layers * heads != statistics.sink_share.size()) return nothing_recorded();
  HeatMap heat;
  heat.id = "sinks";
  heat.text = {"Share of attention on the first token by layer and head",
               "Heat map: one column per layer, one row per head. " + count(findings.sink_heads) + " of " +
                   count(statistics.sink_share.size()) + " reach " + percent(kSinkShare) +
                   ". The table below sums it up by layer."};
  heat.rows = heads;
  heat.columns = layers;
  const auto share = [&statistics, heads](std::size_t head, std::size_t layer) {
    return static_cast<double>(statistics.sink_share[layer * heads + head]);
  };
  for (std::size_t head = 0; head < heads; ++head) {
    for (std::size_t layer = 0; layer < layers; ++layer) heat.cells.push_back(share(head, layer));
    heat.row_labels.push_back(count(head));
  }
  heat.scale_name = "share of attention on the first token";
  heat.value_text = percent;
  heat.row_name = "head";
  heat.column_name = "layer";
  heat.label_columns = 3;
  for (const std::size_t layer : whole_ticks(1, layers, 24)) heat.column_labels.emplace_back(layer - 1, count(layer));
  heat.tooltip = [share](std::size_t head, std::size_t layer) {
    return "layer " + count(layer + 1) + ", head " + count(head) + ": " + percent(share(head, layer));
  };
  return sentence(statistics, findings) + heat_map_html(heat) + table(statistics, findings);
}

}  // namespace ballast::report
