// Lines over the layers of a model, on a logarithmic scale.
#ifndef BALLAST_REPORT_CHART_LINE_CHART_H_
#define BALLAST_REPORT_CHART_LINE_CHART_H_

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "report/chart/svg.h"

namespace ballast::report {

/// A gap in a line.
inline constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

struct Series {
  std::string name;
  std::size_t colour = 0;  ///< below kLineColours
  bool dashed = false;
  std::vector<double> values;  ///< one per layer; a value that is not finite and positive is a gap
};

struct LineChart {
  std::string id;  ///< unique on the page
  PictureText text;
  std::string y_name;
  std::string unit;             ///< after the values in tooltips: "×"
  std::size_t first_layer = 0;  ///< number of the first layer of the series
  std::vector<Series> series;
  std::vector<std::size_t> shaded;  ///< layers with a tinted background
};

/// Returns legend and both drawings; empty if no series has a value.
std::string line_chart_html(const LineChart& chart);

}  // namespace ballast::report

#endif  // BALLAST_REPORT_CHART_LINE_CHART_H_
