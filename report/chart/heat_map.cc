#include "report/chart/heat_map.h"

#include <algorithm>
#include <array>

#include "report/chart/colours.h"
#include "report/chart/text.h"

namespace ballast::report {
namespace {

constexpr double kCharacter = 6.9;      // width in the 11 px fixed-width font, the widest in use
constexpr double kMarkHeight = 26;      // marked columns' labels and their lines
constexpr double kBelow = 44;           // column labels and the axis' name
constexpr double kScaleHeight = 58;     // colour scale with name and ticks
constexpr double kMostHeight = 680;     // of the grid: with more rows, rows become thinner
constexpr double kLabelledHeight = 12;  // rows thinner than this are not all labelled
constexpr double kMostColumnWidth = 28;

// Builds the path from rounded corners: rounded widths would leave seams between neighbours.
std::string cell_path(double left, double top, double right, double bottom) {
  return "M" + coordinate(left) + " " + coordinate(top) + "H" + coordinate(right) + "V" + coordinate(bottom) + "H" +
         coordinate(left) + "z";
}

class HeatMapDrawing {
 public:
  HeatMapDrawing(const HeatMap& map, Width width)
      : map_(map),
        wide_(width == Width::kWide),
        label_columns_(wide_ ? map.label_columns : std::min<std::size_t>(map.label_columns, 11)),
        left_((wide_ ? 26 : 22) + static_cast<double>(label_columns_) * kCharacter),
        cell_width_(std::min(kMostColumnWidth, (units(width) - left_ - 8) / static_cast<double>(map.columns))),
        cell_height_(std::min(map.most_row_height, kMostHeight / static_cast<double>(map.rows))),
        top_(kScaleHeight + (map.marked_columns.empty() ? 0 : kMarkHeight)),
        right_(left_ + cell_width_ * static_cast<double>(map.columns)),
        bottom_(top_ + cell_height_ * static_cast<double>(map.rows)),
        svg_(map.id, width, bottom_ + kBelow, map.text) {}

  std::string draw() && {
    colour_scale();
    cells();
    rows();
    columns();
    marks();
    tooltips();
    return std::move(svg_).finish();
  }

 private:
  double x(std::size_t column) const { return left_ + static_cast<double>(column) * cell_width_; }
  double y(std::size_t row) const { return top_ + static_cast<double>(row) * cell_height_; }

  void colour_scale() {
    const double width = wide_ ? 300 : units(Width::kNarrow) - left_ - 24;
    svg_.text({left_, 12}, map_.scale_name, "name");
    for (std::size_t step = 0; step < kRampSteps; ++step) {
      const double part = width / kRampSteps;
      const double from = left_ + static_cast<double>(step) * part;
      svg_.path(cell_path(from, 20, from + part, 30), "cell c" + std::to_string(step));
    }
    svg_.rectangle({left_, 20, width, 10}, "frame");
    for (const double tick : map_.scale.ticks(wide_ ? 6 : 4)) {
      const double place = left_ + map_.scale(tick) * width;
      svg_.line({place, 30}, {place, 33}, "axis");
      svg_.text({place, 45}, map_.value_text(tick), "tick middle");
    }
  }

  // Cells of one colour become one path: a rectangle for each would make the page ten times as large.
  void cells() {
    std::array<std::string, kRampSteps> paths;
    const auto step_of = [&](std::size_t row, std::size_t column) {
      const double value = map_.cells[row * map_.columns + column];
      return map_.scale.has(value) ? ramp_step(map_.scale(value)) : 0;
    };
    for (std::size_t row = 0; row < map_.rows; ++row) {
      for (std::size_t column = 0; column < map_.columns;) {
        const std::size_t step = step_of(row, column);
        std::size_t end = column + 1;
        while (end < map_.columns && step_of(row, end) == step) ++end;
        paths[step] += cell_path(x(column), y(row), x(end), y(row + 1));
        column = end;
      }
    }
    for (std::size_t step = 0; step < kRampSteps; ++step) {
      if (!paths[step].empty()) svg_.path(paths[step], "cell c" + std::to_string(step));
    }
    svg_.rectangle({left_, top_, right_ - left_, bottom_ - top_}, "frame");
  }

  void rows() {
    std::size_t distance = 1;
    while (static_cast<double>(distance) * cell_height_ < kLabelledHeight) ++distance;
    for (std::size_t row = 0; row < map_.row_labels.size(); row += distance) {
      svg_.text({left_ - 6, y(row) + cell_height_ / 2 + 4}, shortened(map_.row_labels[row], label_columns_),
                "code end");
    }
    svg_.vertical_text({12, (top_ + bottom_) / 2}, map_.row_name, "name middle");
  }

  // Returns the distance of labels (every one, second, third ...) at which they do not overlap.
  std::size_t label_distance() const {
    const std::vector<HeatMap::Label>& labels = map_.column_labels;
    const auto half = [](const std::string& label) { return static_cast<double>(label.size()) * kCharacter / 2; };
    for (std::size_t distance = 1; distance < labels.size(); ++distance) {
      bool apart = true;
      for (std::size_t i = distance; i < labels.size(); i += distance) {
        const auto& [column, label] = labels[i];
        const auto& [column_before, label_before] = labels[i - distance];
        apart = apart && x(column) - x(column_before) > half(label) + half(label_before) + 5;
      }
      if (apart) return distance;
    }
    return std::max<std::size_t>(labels.size(), 1);
  }

  void columns() {
    const std::size_t distance = label_distance();
    for (std::size_t i = 0; i < map_.column_labels.size(); i += distance) {
      const auto& [column, label] = map_.column_labels[i];
      const double place = x(column) + cell_width_ / 2;
      svg_.line({place, bottom_}, {place, bottom_ + 4}, "axis");
      svg_.text({place, bottom_ + 17}, label, "tick middle");
    }
    svg_.text({(left_ + right_) / 2, bottom_ + 36}, map_.column_name, "name middle");
  }

  void marks() {
    double free_from = 0;
    for (const auto& [column, label] : map_.marked_columns) {
      const double place = x(column) + cell_width_ / 2;
      const double half = static_cast<double>(label.size()) * kCharacter / 2;
      const double centre =
          std::clamp(std::max(place, free_from + half), half, units(wide_ ? Width::kWide : Width::kNarrow) - half);
      svg_.line({place, top_}, {centre, top_ - 9}, "pointer");
      if (centre - half < free_from) continue;  // no room in this row of labels; the line still marks the column
      svg_.text({centre, top_ - 12}, label, "mark middle");
      free_from = centre + half + 6;
    }
  }

  void tooltips() {
    if (!map_.tooltip) return;
    for (std::size_t row = 0; row < map_.rows; ++row) {
      for (std::size_t column = 0; column < (map_.row_tooltips ? 1 : map_.columns); ++column) {
        const std::string tooltip = map_.tooltip(row, column);
        const double width = map_.row_tooltips ? right_ - left_ : cell_width_;
        if (!tooltip.empty()) svg_.rectangle({x(column), y(row), width, cell_height_}, "hover", tooltip);
      }
    }
  }

  const HeatMap& map_;
  bool wide_;
  std::size_t label_columns_;
  double left_;
  double cell_width_;
  double cell_height_;
  double top_;
  double right_;
  double bottom_;
  Svg svg_;
};

}  // namespace

std::string heat_map_html(const HeatMap& map) {
  if (map.rows == 0 || map.columns == 0) return {};
  return HeatMapDrawing(map, Width::kNarrow).draw() + HeatMapDrawing(map, Width::kWide).draw();
}

}  // namespace ballast::report
