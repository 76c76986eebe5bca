#include <limits>

#include "report/calibration/figures.h"
#include "report/chart/line_chart.h"
#include "report/chart/table.h"
#include "report/chart/text.h"

namespace ballast::report {

std::string key_value_figure(const Statistics& statistics) {
  LineChart chart;
  chart.id = "keys";
  chart.text = {
      "Ranges of key and value channels by layer",
      "Line chart on a logarithmic scale: the largest and the median channel's absolute maximum, for keys and "
      "for values. The table below has the numbers."};
  chart.y_name = "absolute maximum of a channel";
  chart.first_layer = 1;
  chart.series = {{"keys, largest channel", 0, false, {}},
                  {"keys, median channel", 0, true, {}},
                  {"values, largest channel", 1, false, {}},
                  {"values, median channel", 1, true, {}}};
  Table table(
      "Keys and values by layer: the numbers",
      {{"Layer"}, {"Largest key"}, {"Channel"}, {"Median key"}, {"Largest value"}, {"Channel"}, {"Median value"}});
  for (std::size_t layer = 0; layer < statistics.key_values.size(); ++layer) {
    std::vector<std::string> row = {count(layer + 1)};
    const KeyValueStatistics& both = statistics.key_values[layer];
    for (const std::size_t which : {0, 1}) {
      const std::optional<ChannelRange> range = channel_range(which == 0 ? both.keys : both.values);
      chart.series[2 * which].values.push_back(range ? range->largest : kMissing);
      chart.series[2 * which + 1].values.push_back(range ? range->median : kMissing);
      row.push_back(range ? number(range->largest) : "–");
      row.push_back(range ? std::to_string(range->channel) : "–");
      row.push_back(range ? number(range->median) : "–");
    }
    table.add_row(row);
  }
  const std::string drawing = line_chart_html(chart);
  if (drawing.empty()) return nothing_recorded();
  return paragraph(
             "Keys after position rotation, and values. Where the largest channel stands far above the median one, a "
             "few channels would set the scale for all others.") +
         drawing + table.folded_html();
}

}  // namespace ballast::report
