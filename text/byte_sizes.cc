#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "ballast/error.h"
#include "ballast/text.h"

namespace ballast::text {
namespace {

/// Returns the bytes of "", "B", "kB", "MiB", ...; nullopt for an unknown unit.
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

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1000) return std::to_string(bytes) + " B";
  constexpr std::array<std::string_view, 6> kUnits{" kB", " MB", " GB", " TB", " PB", " EB"};
  double value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  // 999.95 would be printed as 1000.0.
  while (value >= 999.95 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  std::array<char, 16> digits{};
  const auto [end, failure] = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                            std::chars_format::fixed, value < 9.995 ? 2 : 1);
  return std::string(digits.data(), end).append(kUnits[unit]);
}

std::uint64_t parse_bytes(std::string_view context, std::string_view text) {
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
    throw Error(context, "'" + std::string(text) + "' must be a size like 92MB, 1.5GiB or a number of bytes");
  }
  return static_cast<std::uint64_t>(std::llround(bytes));
}

}  // namespace ballast::text
