// Formats figures for users.
#ifndef BALLAST_TOOLS_TERMINAL_UNITS_H_
#define BALLAST_TOOLS_TERMINAL_UNITS_H_

#include <string>

namespace ballast::tools {

/// Returns "0.4 s", "12 s", "1 m 20 s", "2 h 5 m".
std::string format_duration(double seconds);

/// Returns exactly `decimals` digits after the point.
std::string format_fixed(double value, int decimals);

/// Returns four significant digits: "0.01134", "1.205e-06".
std::string format_figure(double value);

/// Returns "45.6 %" for 0.456.
std::string format_percent(double share, int decimals = 1);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_TERMINAL_UNITS_H_
