// Figures as people read them.
#ifndef BALLAST_TOOLS_TERMINAL_UNITS_H_
#define BALLAST_TOOLS_TERMINAL_UNITS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace ballast::tools {

/// The inverse of text::format_bytes, for what a user writes: "92MB", "1.5 GiB", "96000000". Units of 1000 or (KiB,
/// MiB, ...) of 1024, in letters of any case. `option` is named in the UsageError that anything else throws.
std::uint64_t parse_bytes(std::string_view option, std::string_view text);

/// "0.4 s", "12 s", "1 m 20 s", "2 h 5 m".
std::string format_duration(double seconds);

/// With exactly `decimals` digits after the point.
std::string format_fixed(double value, int decimals);

/// Four significant digits: "0.01134", "1.205e-06".
std::string format_figure(double value);

/// "45.6 %" of a share 0.456.
std::string format_percent(double share, int decimals = 1);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_TERMINAL_UNITS_H_
