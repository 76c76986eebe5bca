#include "report/chart/line_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>

#include "report/chart/scale.h"
#include "report/chart/text.h"

namespace ballast::report {
namespace {

class LineDrawing {
 public:
  LineDrawing(const LineChart& chart, const Scale& scale, std::size_t layers, Width width)
      : chart_(chart),
        scale_(scale),
        layers_(layers),
        wide_(width == Width::kWide),
        top_(wide_ ? 12 : 26),
        left_(wide_ ? 74 : 54),
        right_(units(width) - 8),
        bottom_((wide_ ? 340 : 260) - kAxisHeight),
        step_((right_ - left_) / static_cast<double>(layers)),
        svg_(chart.id, width, bottom_ + kAxisHeight, chart.text) {}

  std::string draw() && {
    grounds();
    axes();
    for (const Series& series : std::views::reverse(chart_.series)) line(series);  // the first is on top
    tooltips();
    return std::move(svg_).finish();
  }

 private:
  // A layer has a column as wide as the others; its point is in the middle.
  double x(std::size_t index) const { return left_ + (static_cast<double>(index) + 0.5) * step_; }
  double y(double value) const { return bottom_ - std::clamp(scale_(value), 0.0, 1.0) * (bottom_ - top_); }
  Box column(std::size_t index) const { return {x(index) - step_ / 2, top_, step_, bottom_ - top_}; }

  void grounds() {
    // Adjacent layers share one rectangle: edges within the tinted area would show as lines.
    std::vector<bool> shaded(layers_ + 1, false);
    for (const std::size_t layer : chart_.shaded) {
      const std::size_t index = layer - chart_.first_layer;
      if (layer >= chart_.first_layer && index < layers_) shaded[index] = true;
    }
    for (std::size_t begin = 0; begin < layers_; ++begin) {
      std::size_t end = begin;
      while (shaded[end]) ++end;
      if (end == begin) continue;
      svg_.rectangle({x(begin) - step_ / 2, top_, static_cast<double>(end - begin) * step_, bottom_ - top_}, "band");
      begin = end;
    }
  }

  void axes() {
    for (const double tick : scale_.ticks(wide_ ? 9 : 7)) {
      svg_.line({left_, y(tick)}, {right_, y(tick)}, "grid");
      svg_.text({left_ - 8, y(tick) + 4}, round_number(tick), "tick end");
    }
    svg_.line({left_, bottom_}, {right_, bottom_}, "axis");
    const std::size_t last = chart_.first_layer + layers_ - 1;
    for (const std::size_t layer : whole_ticks(chart_.first_layer, last, wide_ ? 18 : 8)) {
      const double place = x(layer - chart_.first_layer);
      svg_.line({place, bottom_}, {place, bottom_ + 4}, "axis");
      svg_.text({place, bottom_ + 18}, count(layer), "tick middle");
    }
    svg_.text({(left_ + right_) / 2, bottom_ + 38}, "layer", "name middle");
    if (wide_) {
      svg_.vertical_text({14, (top_ + bottom_) / 2}, chart_.y_name, "name middle");
    } else {
      svg_.text({0, 12}, chart_.y_name, "name");
    }
  }

  void line(const Series& series) {
    const std::string classes = "s" + std::to_string(series.colour);
    const auto stretch = [&](const std::vector<Point>& points) {
      if (points.size() > 1) svg_.polyline(points, "line " + classes + (series.dashed ? " dashed" : ""));
      if (points.size() == 1 || step_ > 9) {
        for (const Point& point : points) svg_.circle(point, points.size() == 1 ? 3 : 2, "dot " + classes);
      }
    };
    std::vector<Point> points;
    for (std::size_t i = 0; i < series.values.size(); ++i) {
      if (scale_.has(series.values[i])) {
        points.push_back({x(i), y(series.values[i])});
      } else {
        stretch(points);
        points.clear();
      }
    }
    stretch(points);
  }

  void tooltips() {
    for (std::size_t i = 0; i < layers_; ++i) {
      std::string tooltip = "layer " + count(chart_.first_layer + i);
      bool any = false;
      for (const Series& series : chart_.series) {
        if (i >= series.values.size() || !std::isfinite(series.values[i])) continue;
        tooltip += "\n" + series.name + ": " + number(series.values[i]) + chart_.unit;
        any = true;
      }
      if (any) svg_.rectangle(column(i), "hover", tooltip);
    }
  }

  const LineChart& chart_;
  const Scale& scale_;
  std::size_t layers_;
  bool wide_;
  double top_;
  double left_;
  double right_;
  double bottom_;
  double step_;
  Svg svg_;
};

std::string legend(const LineChart& chart) {
  std::string html = "<ul class=\"legend\">\n";
  for (const Series& series : chart.series) {
    html += "<li><svg class=\"key\" viewBox=\"0 0 26 10\" aria-hidden=\"true\"><line class=\"line s" +
            std::to_string(series.colour) + (series.dashed ? " dashed" : "") +
            "\" x1=\"1\" y1=\"5\" x2=\"25\" y2=\"5\"/></svg>" + escape(series.name) + "</li>\n";
  }
  return html + "</ul>\n";
}

}  // namespace

std::string line_chart_html(const LineChart& chart) {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  std::size_t layers = 0;
  for (const Series& series : chart.series) {
    layers = std::max(layers, series.values.size());
    for (const double value : series.values) {
      if (!std::isfinite(value) || value <= 0) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  if (high <= 0) return {};
  const Scale scale = Scale::logarithmic(low, high);
  return legend(chart) + LineDrawing(chart, scale, layers, Width::kNarrow).draw() +
         LineDrawing(chart, scale, layers, Width::kWide).draw();
}

}  // namespace ballast::report
