// Formats and parses figures for users.
#ifndef BALLAST_TOOLS_TERMINAL_UNITS_H_
#define BALLAST_TOOLS_TERMINAL_UNITS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace ballast::tools {

/// Parses "92MB", "1.5 GiB", "96000000", the inverse of text::format_bytes. Units of 1000 or (KiB, MiB, ...) of 1024,
/// in letters of any case. Throws UsageError naming `option` for other text.
std::uint64_t parse_bytes(std::string_view option, std::string_view text);

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
