#include "report/chart/svg.h"

#include <utility>

#include "report/chart/text.h"

namespace ballast::report {
namespace {

std::string attribute(std::string_view name, double value) {
  return " " + std::string(name) + "=\"" + coordinate(value) + "\"";
}

std::string attribute(std::string_view name, std::string_view value) {
  return " " + std::string(name) + "=\"" + escape(value) + "\"";
}

}  // namespace

double units(Width width) {
  return width == Width::kNarrow ? 360 : 800;
}

Svg::Svg(std::string_view id, Width width, double height, const PictureText& text) {
  const std::string name = std::string(id) + (width == Width::kNarrow ? "-narrow" : "-wide");
  code_ = "<svg" + attribute("class", width == Width::kNarrow ? "narrow" : "wide") +
          attribute("viewBox", "0 0 " + coordinate(units(width)) + " " + coordinate(height)) +
          " role=\"img\" aria-labelledby=\"" + name + "-title " + name + "-text\">\n<title id=\"" + name + "-title\">" +
          escape(text.title) + "</title>\n<desc id=\"" + name + "-text\">" + escape(text.description) + "</desc>\n";
}

void Svg::line(Point from, Point to, std::string_view classes) {
  code_ += "<line" + attribute("class", classes) + attribute("x1", from.x) + attribute("y1", from.y) +
           attribute("x2", to.x) + attribute("y2", to.y) + "/>\n";
}

void Svg::polyline(const std::vector<Point>& points, std::string_view classes) {
  std::string places;
  for (const Point& point : points) {
    if (!places.empty()) places += ' ';
    places += coordinate(point.x) + "," + coordinate(point.y);
  }
  code_ += "<polyline" + attribute("class", classes) + attribute("points", places) + "/>\n";
}

void Svg::circle(Point centre, double radius, std::string_view classes) {
  code_ += "<circle" + attribute("class", classes) + attribute("cx", centre.x) + attribute("cy", centre.y) +
           attribute("r", radius) + "/>\n";
}

void Svg::rectangle(const Box& box, std::string_view classes, std::string_view tooltip) {
  code_ += "<rect" + attribute("class", classes) + attribute("x", box.x) + attribute("y", box.y) +
           attribute("width", box.width) + attribute("height", box.height);
  code_ += tooltip.empty() ? "/>\n" : "><title>" + escape(tooltip) + "</title></rect>\n";
}

void Svg::begin_group(std::string_view classes, std::string_view tooltip) {
  code_ += "<g" + attribute("class", classes) + " tabindex=\"0\"><title>" + escape(tooltip) + "</title>\n";
}

void Svg::end_group() {
  code_ += "</g>\n";
}

void Svg::path(std::string_view data, std::string_view classes) {
  code_ += "<path" + attribute("class", classes) + attribute("d", data) + "/>\n";
}

void Svg::text(Point baseline, std::string_view content, std::string_view classes) {
  code_ += "<text" + attribute("class", classes) + attribute("x", baseline.x) + attribute("y", baseline.y) + ">" +
           escape(content) + "</text>\n";
}

void Svg::vertical_text(Point centre, std::string_view content, std::string_view classes) {
  const std::string place = coordinate(centre.x) + " " + coordinate(centre.y);
  code_ += "<text" + attribute("class", classes) + attribute("transform", "translate(" + place + ") rotate(-90)") +
           ">" + escape(content) + "</text>\n";
}

std::string Svg::finish() && {
  return std::move(code_) + "</svg>\n";
}

}  // namespace ballast::report
