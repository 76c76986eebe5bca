#include "tools/terminal/units.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string_view>
#include <system_error>

#include "tools/flags/option_checks.h"

namespace ballast::tools {
namespace {

std::string formatted(const char* format, int precision, double value) {
  std::array<char, 400> text{};  // the largest double has 309 digits before the point
  std::snprintf(text.data(), text.size(), format, precision, value);
  return text.data();
}

// Returns the bytes of "", "B", "kB", "MiB", ...; nullopt for an unknown unit.
std::optional<double> unit_bytes(std::string_view name) {
  std::string unit(name);
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (unit.empty() || unit == "b") return 1;
  constexpr std::string_view kPrefixes = "kmgt";
  const std::size_t power = kPrefixes.find(unit.front());
  if (power == std::string_view::npos) return std::nullopt;
  const std::string rest = unit.substr(1);
  if (rest != "b" && rest != "ib") return std::nullopt;
  return std::pow(rest == "b" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
}

}  // namespace

std::uint64_t parse_bytes(std::string_view option, std::string_view text) {
  // Above this F64 does not count single bytes exactly; no model is that large.
  constexpr double kMostBytes = 9007199254740992.0;
  double number = 0;
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, number, std::chars_format::fixed);
  std::string_view unit(stop, end);
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  const std::optional<double> factor = unit_bytes(unit);
  const double bytes = number * factor.value_or(0);
  // This form also refuses NaN.
  const bool in_range = bytes >= 1 && bytes <= kMostBytes;
  if (error != std::errc{} || !in_range) {
    throw UsageError(std::string(option) + ": '" + std::string(text) +
                     "' must be a size like 92MB, 1.5GiB or a number of bytes");
  }
  return static_cast<std::uint64_t>(std::llround(bytes));
}

std::string format_duration(double seconds) {
  if (seconds < 9.95) return format_fixed(seconds, 1) + " s";
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  if (whole < 60) return std::to_string(whole) + " s";
  if (whole < 3600) return std::to_string(whole / 60) + " m " + std::to_string(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + std::to_string(whole % 3600 / 60) + " m";
}

std::string format_fixed(double value, int decimals) {
  return formatted("%.*f", decimals, value);
}

std::string format_figure(double value) {
  return formatted("%.*g", 4, value);
}

std::string format_percent(double share, int decimals) {
  return format_fixed(100 * share, decimals) + " %";
}

}  // namespace ballast::tools
