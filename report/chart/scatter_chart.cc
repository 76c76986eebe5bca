#include "report/chart/scatter_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <ranges>

#include "report/chart/scale.h"
#include "report/chart/text.h"
#include "text/unicode/characters.h"

namespace ballast::report {
namespace {

constexpr double kRight = 24;  // half of the last tick label
constexpr double kRadius = 5;
constexpr double kHalo = 11;  // the area in which the pointer shows a tooltip
constexpr std::size_t kLabelColumns = 22;
constexpr double kCharacterWidth = 6.6;  // of the labels' fixed-width font at 11 px
constexpr double kLabelHeight = 12;

bool is_drawn(const ScatterPoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.y) && point.y > 0;
}

bool overlap(const Box& a, const Box& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

/// The smallest and the largest drawn value.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// Adds room at both ends, so that no point is on the frame.
Scale x_scale(const Range& range) {
  const double span = range.high > range.low ? range.high - range.low : std::max(range.high, 1.0);
  return Scale::linear(std::max(0.0, range.low - 0.06 * span), range.high + 0.06 * span);
}

std::string diamond(Point at, double radius) {
  const auto move = [&](char command, double dx, double dy) {
    return command + coordinate(at.x + dx) + " " + coordinate(at.y + dy);
  };
  return move('M', 0, -radius) + move('L', radius, 0) + move('L', 0, radius) + move('L', -radius, 0) + "Z";
}

void draw_mark(Svg& svg, ScatterGroup::Mark mark, Point at, const std::string& classes) {
  if (mark == ScatterGroup::Mark::kDisc) {
    svg.circle(at, kRadius, classes);
  } else {
    svg.path(diamond(at, kRadius + 1), classes);
  }
}

class ScatterDrawing {
 public:
  ScatterDrawing(const ScatterChart& chart, const Scale& x, const Scale& y, Width width)
      : chart_(chart),
        x_scale_(x),
        y_scale_(y),
        wide_(width == Width::kWide),
        top_(wide_ ? 12 : 26),
        left_(wide_ ? 74 : 54),
        right_(units(width) - kRight),
        bottom_((wide_ ? 440 : 330) - kAxisHeight),
        svg_(chart.id, width, bottom_ + kAxisHeight, chart.text) {}

  std::string draw() && {
    axes();
    for (const ScatterGroup& group : std::views::reverse(chart_.groups)) draw_frontier(group);
    for (const ScatterGroup& group : std::views::reverse(chart_.groups)) draw_points(group);  // the first is on top
    labels();
    return std::move(svg_).finish();
  }

 private:
  Point place(const ScatterPoint& point) const {
    return {left_ + x_scale_(point.x) * (right_ - left_), bottom_ - y_scale_(point.y) * (bottom_ - top_)};
  }

  void axes() {
    for (const double tick : y_scale_.ticks(wide_ ? 10 : 8)) {
      const double y = bottom_ - y_scale_(tick) * (bottom_ - top_);
      svg_.line({left_, y}, {right_, y}, "grid");
      svg_.text({left_ - 8, y + 4}, round_number(tick), "tick end");
    }
    svg_.line({left_, bottom_}, {right_, bottom_}, "axis");
    for (const double tick : x_scale_.ticks(wide_ ? 10 : 5)) {
      const double x = left_ + x_scale_(tick) * (right_ - left_);
      svg_.line({x, bottom_}, {x, bottom_ + 4}, "axis");
      svg_.text({x, bottom_ + 18}, round_number(tick), "tick middle");
    }
    svg_.text({(left_ + right_) / 2, bottom_ + 38}, chart_.x_name, "name middle");
    if (wide_) {
      svg_.vertical_text({14, (top_ + bottom_) / 2}, chart_.y_name, "name middle");
    } else {
      svg_.text({0, 12}, chart_.y_name, "name");
    }
  }

  void draw_frontier(const ScatterGroup& group) {
    std::vector<Point> points;
    for (const std::size_t i : frontier(group.points, chart_.more_x_is_better))
      points.push_back(place(group.points[i]));
    if (points.size() < 2) return;
    const bool others = group.mark == ScatterGroup::Mark::kDiamond;
    svg_.polyline(points, "line frontier s" + std::to_string(group.colour) + (others ? " dashed" : ""));
  }

  void draw_points(const ScatterGroup& group) {
    for (const ScatterPoint& point : group.points) {
      if (!is_drawn(point)) continue;
      const Point at = place(point);
      svg_.begin_group("point", point.tooltip);
      svg_.circle(at, kHalo, "halo");
      draw_mark(svg_, group.mark, at, "dot s" + std::to_string(group.colour));
      svg_.end_group();
      taken_.push_back({at.x - kRadius, at.y - kRadius, 2 * kRadius, 2 * kRadius});
    }
  }

  // Labels the points of the frontiers first, then the others; a point without room has no label, only its tooltip.
  void labels() {
    for (const bool best : {true, false}) {
      for (const ScatterGroup& group : chart_.groups) {
        const std::vector<std::size_t> line = frontier(group.points, chart_.more_x_is_better);
        for (std::size_t i = 0; i < group.points.size(); ++i) {
          const bool on_line = std::ranges::find(line, i) != line.end();
          if (is_drawn(group.points[i]) && on_line == best) draw_label(group.points[i]);
        }
      }
    }
  }

  void draw_label(const ScatterPoint& point) {
    const std::string label = shortened(point.label, kLabelColumns);
    const double width = kCharacterWidth * static_cast<double>(text::display_width(label));
    const Point at = place(point);
    const double near = kRadius + 4;
    const std::array<Box, 8> places = {{{at.x + near, at.y - kLabelHeight / 2, width, kLabelHeight},
                                        {at.x - near - width, at.y - kLabelHeight / 2, width, kLabelHeight},
                                        {at.x + near, at.y - kLabelHeight - 3, width, kLabelHeight},
                                        {at.x + near, at.y + 3, width, kLabelHeight},
                                        {at.x - near - width, at.y - kLabelHeight - 3, width, kLabelHeight},
                                        {at.x - near - width, at.y + 3, width, kLabelHeight},
                                        {at.x - width / 2, at.y - near - kLabelHeight, width, kLabelHeight},
                                        {at.x - width / 2, at.y + near, width, kLabelHeight}}};
    const auto box = std::ranges::find_if(places, [this](const Box& candidate) { return is_free(candidate); });
    if (box == places.end()) return;
    taken_.push_back(*box);
    svg_.text({box->x, box->y + kLabelHeight - 2}, label, "code");
  }

  bool is_free(const Box& box) const {
    if (box.x < left_ || box.x + box.width > right_ || box.y < top_ || box.y + box.height > bottom_) return false;
    return std::ranges::none_of(taken_, [&](const Box& other) { return overlap(box, other); });
  }

  const ScatterChart& chart_;
  const Scale& x_scale_;
  const Scale& y_scale_;
  bool wide_;
  double top_;
  double left_;
  double right_;
  double bottom_;
  std::vector<Box> taken_;  ///< areas of marks and labels
  Svg svg_;
};

std::string legend(const ScatterChart& chart) {
  std::string html = "<ul class=\"legend\">\n";
  for (const ScatterGroup& group : chart.groups) {
    const std::string colour = "s" + std::to_string(group.colour);
    const bool disc = group.mark == ScatterGroup::Mark::kDisc;
    html += "<li><svg class=\"key\" viewBox=\"0 0 26 10\" aria-hidden=\"true\">" +
            (disc ? "<circle class=\"dot " + colour + "\" cx=\"13\" cy=\"5\" r=\"4.5\"/>"
                  : "<path class=\"dot " + colour + "\" d=\"" + diamond({13, 5}, 5) + "\"/>") +
            "</svg>" + escape(group.name) + "</li>\n";
  }
  return html + "</ul>\n";
}

}  // namespace

std::vector<std::size_t> frontier(const std::vector<ScatterPoint>& points, bool more_x_is_better) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (is_drawn(points[i])) order.push_back(i);
  }
  // Goes from the best x to the worst: a point of the frontier must be better in y than all before it.
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    if (points[a].x != points[b].x) return more_x_is_better == (points[a].x > points[b].x);
    return points[a].y < points[b].y;
  });
  std::vector<std::size_t> best;
  for (const std::size_t i : order) {
    if (best.empty() || points[i].y < points[best.back()].y) best.push_back(i);
  }
  if (more_x_is_better) std::ranges::reverse(best);
  return best;
}

std::string scatter_chart_html(const ScatterChart& chart) {
  Range x;
  Range y;
  for (const ScatterGroup& group : chart.groups) {
    for (const ScatterPoint& point : group.points) {
      if (!is_drawn(point)) continue;
      x.include(point.x);
      y.include(point.y);
    }
  }
  if (x.low > x.high) return {};
  const Scale horizontal = x_scale(x);
  const Scale vertical = Scale::logarithmic(y.low, y.high);
  return legend(chart) + ScatterDrawing(chart, horizontal, vertical, Width::kNarrow).draw() +
         ScatterDrawing(chart, horizontal, vertical, Width::kWide).draw();
}

}  // namespace ballast::report
