#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ballast/text.h"

namespace ballast::text {

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

}  // namespace ballast::text
