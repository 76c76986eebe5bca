// The colours of the figures: one sequential ramp for magnitudes and a few line colours, each in a light and a dark
// set.
#ifndef BALLAST_REPORT_CHART_COLOURS_H_
#define BALLAST_REPORT_CHART_COLOURS_H_

#include <cstddef>
#include <string>

namespace ballast::report {

/// Steps of the ramp. Elements take step i by the class "ci"; what colour that is, the style sheet says.
inline constexpr std::size_t kRampSteps = 32;

/// The step of a value in [0, 1], clamped.
std::size_t ramp_step(double share);

/// Rules for .c0 ... .c31 as fills. Small values have the colour of the page, large ones stand out from it: dark on the
/// light page, bright on the dark one. Lightness is even along the ramp (equal steps of Oklab L, so that it reads
/// without colour vision too), hue goes from yellow through green to indigo.
std::string ramp_css();

/// Colours of lines, classes "s0" ... "s5", told apart with any kind of colour vision.
inline constexpr std::size_t kLineColours = 6;

}  // namespace ballast::report

#endif  // BALLAST_REPORT_CHART_COLOURS_H_
