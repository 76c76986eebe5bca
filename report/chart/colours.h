// The colours of the figures: one sequential ramp for magnitudes and a few line colours, each in a light and a dark
// version.
#ifndef BALLAST_REPORT_CHART_COLOURS_H_
#define BALLAST_REPORT_CHART_COLOURS_H_

#include <cstddef>
#include <string>

namespace ballast::report {

/// Steps of the ramp. Elements use step i by the class "ci", whose colour is in the style sheet.
inline constexpr std::size_t kRampSteps = 32;

/// Returns the step of a value in [0, 1], clamped.
std::size_t ramp_step(double share);

/// Returns rules for .c0 ... .c31 as fills. Small values have the colour of the page, large ones contrast with it: dark
/// on the light page, bright on the dark one. Lightness is even along the ramp (equal steps of Oklab L, readable
/// without colour vision); hue goes from yellow through green to indigo.
std::string ramp_css();

/// Colours of lines, classes "s0" ... "s5", distinguishable with any kind of colour vision.
inline constexpr std::size_t kLineColours = 6;

}  // namespace ballast::report

#endif  // BALLAST_REPORT_CHART_COLOURS_H_
