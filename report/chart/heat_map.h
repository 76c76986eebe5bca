// A grid of cells coloured by value.
#ifndef BALLAST_REPORT_CHART_HEAT_MAP_H_
#define BALLAST_REPORT_CHART_HEAT_MAP_H_

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "report/chart/scale.h"
#include "report/chart/svg.h"

namespace ballast::report {

struct HeatMap {
  using Label = std::pair<std::size_t, std::string>;  ///< of a row or column, by its index

  std::string id;  ///< unique on the page
  PictureText text;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<double> cells;  ///< [rows][columns]; values outside of the scale are drawn as its low end
  Scale scale = Scale::linear(0, 1);
  std::string scale_name;
  std::function<std::string(double)> value_text;  ///< for the scale's ticks
  std::string row_name;
  std::string column_name;
  std::vector<std::string> row_labels;  ///< one per row, in a fixed-width font, cut if too long
  std::size_t label_columns = 4;        ///< room for row labels, in characters
  std::vector<Label> column_labels;     ///< below the grid
  std::vector<Label> marked_columns;    ///< above the grid, with a line to their column
  double most_row_height = 22;

  /// Returns a cell's tooltip; none if empty. With `row_tooltips` it is called once per row, with column 0, for the
  /// whole row.
  std::function<std::string(std::size_t row, std::size_t column)> tooltip;
  bool row_tooltips = false;
};

/// Returns both drawings; empty if there are no cells.
std::string heat_map_html(const HeatMap& map);

}  // namespace ballast::report

#endif  // BALLAST_REPORT_CHART_HEAT_MAP_H_
