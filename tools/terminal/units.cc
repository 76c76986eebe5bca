#include "tools/terminal/units.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace ballast::tools {
namespace {

std::string formatted(const char* format, int precision, double value) {
  std::array<char, 400> text{};  // the largest double has 309 digits before the point
  std::snprintf(text.data(), text.size(), format, precision, value);
  return text.data();
}

}  // namespace

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
