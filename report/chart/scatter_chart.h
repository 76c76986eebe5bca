// A scatter chart of groups of points, with a line through the best of each group.
#ifndef BALLAST_REPORT_CHART_SCATTER_CHART_H_
#define BALLAST_REPORT_CHART_SCATTER_CHART_H_

#include <cstddef>
#include <string>
#include <vector>

#include "report/chart/svg.h"

namespace ballast::report {

struct ScatterPoint {
  double x = 0;
  double y = 0;         ///< values that are not finite and positive are not drawn
  std::string label{};  ///< next to the point, if there is room
  std::string tooltip{};
};

struct ScatterGroup {
  enum class Mark { kDisc, kDiamond };

  std::string name;
  std::size_t colour = 0;  ///< below kLineColours
  Mark mark = Mark::kDisc;
  std::vector<ScatterPoint> points{};
};

/// A chart with a logarithmic y axis, on which less is better.
struct ScatterChart {
  std::string id;  ///< unique on the page
  PictureText text{};
  std::string x_name{};
  std::string y_name{};
  bool more_x_is_better = false;
  std::vector<ScatterGroup> groups{};
};

/// Returns the indices of the points that no other point beats or equals in both directions, by ascending x.
std::vector<std::size_t> frontier(const std::vector<ScatterPoint>& points, bool more_x_is_better);

/// Returns legend and both drawings; empty if there is no point.
std::string scatter_chart_html(const ScatterChart& chart);

}  // namespace ballast::report

#endif  // BALLAST_REPORT_CHART_SCATTER_CHART_H_
