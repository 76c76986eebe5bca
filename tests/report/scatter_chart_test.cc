#include "report/chart/scatter_chart.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "html_page.h"

namespace ballast::report {
namespace {

using test::contains;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

ScatterChart chart_of(const std::vector<ScatterPoint>& points) {
  ScatterChart chart{.id = "plot", .x_name = "MB", .y_name = "KL"};
  chart.groups.push_back({.name = "ours", .points = points});
  return chart;
}

TEST_CASE("the frontier has the points that no other beats in both directions") {
  const std::vector<ScatterPoint> points = {{.x = 100, .y = 0.05}, {.x = 90, .y = 0.1}, {.x = 110, .y = 0.06},
                                            {.x = 120, .y = 0.01}, {.x = 90, .y = 0.2}, {.x = 100, .y = 0.05}};
  CHECK(frontier(points, false) == std::vector<std::size_t>{1, 0, 3});
  // With speed on x, the point at 120 beats all others.
  CHECK(frontier(points, true) == std::vector<std::size_t>{3});
  const std::vector<ScatterPoint> speeds = {{.x = 10, .y = 0.01}, {.x = 20, .y = 0.1}, {.x = 15, .y = 0.2}};
  CHECK(frontier(speeds, true) == std::vector<std::size_t>{0, 1});
}

TEST_CASE("points that cannot be drawn are not part of the frontier") {
  CHECK(frontier({{.x = 1, .y = 0}, {.x = kNan, .y = 1}, {.x = 2, .y = kNan}, {.x = 3, .y = 1}}, false) ==
        std::vector<std::size_t>{3});
  CHECK(frontier({}, false).empty());
}

TEST_CASE("each point shows its tooltip on hover and can be reached by keyboard, in both drawings") {
  const std::string html =
      scatter_chart_html(chart_of({{.x = 92, .y = 0.048, .label = "w4a16", .tooltip = "w4a16\n92 MB <&>"}}));
  const std::string point = "<g class=\"point\" tabindex=\"0\"><title>w4a16\n92 MB &lt;&amp;&gt;</title>";
  const std::size_t narrow = html.find(point);
  REQUIRE(narrow != std::string::npos);
  CHECK(html.find(point, narrow + 1) != std::string::npos);
  CHECK(contains(html, ">w4a16</text>"));
}

TEST_CASE("labels never overlap: a point without room for one has only a tooltip") {
  std::vector<ScatterPoint> points;
  for (int i = 0; i < 40; ++i) points.push_back({.x = 100, .y = 0.1, .label = "same-place", .tooltip = "all of it"});
  points.push_back({.x = 200, .y = 0.01, .label = "apart", .tooltip = "far away"});
  const std::string html = scatter_chart_html(chart_of(points));
  std::size_t labels = 0;
  for (std::size_t at = html.find(">same-place<"); at != std::string::npos; at = html.find(">same-place<", at + 1)) {
    ++labels;
  }
  CHECK(labels >= 2);
  CHECK(labels <= 12);  // six positions around the point in each of two drawings
  CHECK(contains(html, ">apart</text>"));
}

TEST_CASE("a chart is drawn only if it has a point") {
  CHECK(scatter_chart_html(chart_of({})).empty());
  CHECK(scatter_chart_html(chart_of({{.x = 1, .y = 0}})).empty());
  for (const double x : {0.0, 1e-9, 1.0, 1e12}) {
    const std::string html = scatter_chart_html(chart_of({{.x = x, .y = 1}}));
    CHECK(contains(html, "<circle class=\"dot s0\""));
    CHECK_FALSE(test::has_word(html, "nan"));
    CHECK_FALSE(test::has_word(html, "inf"));
  }
}

TEST_CASE("other programs differ by shape, not only by colour") {
  ScatterChart chart = chart_of({{.x = 1, .y = 1}});
  chart.groups.push_back({.name = "theirs",
                          .colour = 1,
                          .mark = ScatterGroup::Mark::kDiamond,
                          .points = {{.x = 2, .y = 2}, {.x = 3, .y = 1}}});
  const std::string html = scatter_chart_html(chart);
  CHECK(contains(html, "<path class=\"dot s1\""));
  CHECK(contains(html, "class=\"line frontier s1 dashed\""));
  CHECK(contains(html, "</svg>theirs</li>"));
}

}  // namespace
}  // namespace ballast::report
