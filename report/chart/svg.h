// A writer of one SVG picture, element by element.
#ifndef BALLAST_REPORT_CHART_SVG_H_
#define BALLAST_REPORT_CHART_SVG_H_

#include <string>
#include <string_view>
#include <vector>

namespace ballast::report {

/// A figure is drawn twice, for narrow and for wide windows, so that its text keeps a legible size without scrolling.
/// The style sheet shows one of the two.
enum class Width { kNarrow, kWide };

/// Returns the width of a drawing in its own units, about one CSS pixel each. Both use 12 px text.
double units(Width width);

/// The height of tick labels and the name of an axis, below a plot.
inline constexpr double kAxisHeight = 44;

/// The description of a picture for screen readers. Plain text.
struct PictureText {
  std::string title;
  std::string description;
};

struct Point {
  double x = 0;
  double y = 0;
};

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

/// Escapes texts and tooltips; classes ("grid", "tick end") name rules of the style sheet.
class Svg {
 public:
  /// `id` must be unique on the page.
  Svg(std::string_view id, Width width, double height, const PictureText& text);

  void line(Point from, Point to, std::string_view classes);
  void polyline(const std::vector<Point>& points, std::string_view classes);
  void circle(Point centre, double radius, std::string_view classes);
  void rectangle(const Box& box, std::string_view classes, std::string_view tooltip = {});

  /// Elements until end_group() belong together and show `tooltip`; they can be reached by keyboard.
  void begin_group(std::string_view classes, std::string_view tooltip);
  void end_group();

  void path(std::string_view data, std::string_view classes);
  void text(Point baseline, std::string_view content, std::string_view classes);

  /// Writes `content` from bottom to top, centred on a point: the name of a vertical axis.
  void vertical_text(Point centre, std::string_view content, std::string_view classes);

  /// Returns the finished element.
  std::string finish() &&;

 private:
  std::string code_;
};

}  // namespace ballast::report

#endif  // BALLAST_REPORT_CHART_SVG_H_
