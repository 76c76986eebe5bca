#include "report/chart/colours.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>

namespace ballast::report {
namespace {

using Anchors = std::array<std::uint32_t, 9>;

// Equal steps of Oklab lightness, 0.965 to 0.27 and 0.245 to 0.955.
constexpr Anchors kLight = {0xf5f4e5, 0xd5dda6, 0xa0ca86, 0x5bb586, 0x169a8e, 0x05798d, 0x00588a, 0x1f3380, 0x24155d};
constexpr Anchors kDark = {0x1f1e2e, 0x292f67, 0x1c4d8b, 0x047093, 0x0f9293, 0x35b38d, 0x7fcd79, 0xc7e074, 0xfaf5a5};

std::string colour(const Anchors& anchors, std::size_t step) {
  const std::size_t place = step * (anchors.size() - 1);  // in units of 1 / (kRampSteps - 1)
  const std::size_t below = std::min(place / (kRampSteps - 1), anchors.size() - 2);
  const double share = static_cast<double>(place) / (kRampSteps - 1) - static_cast<double>(below);
  std::uint32_t mixed = 0;
  for (const int shift : {16, 8, 0}) {
    const double low = anchors[below] >> shift & 0xFFU;
    const double high = anchors[below + 1] >> shift & 0xFFU;
    mixed = mixed << 8 | static_cast<std::uint32_t>(std::lround(low + share * (high - low)));
  }
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "#%06x", mixed);
  return text.data();
}

std::string rules(const Anchors& anchors) {
  std::string css;
  for (std::size_t step = 0; step < kRampSteps; ++step) {
    css += ".c" + std::to_string(step) + "{fill:" + colour(anchors, step) + "}";
  }
  return css;
}

}  // namespace

std::size_t ramp_step(double share) {
  if (!(share > 0)) return 0;
  return static_cast<std::size_t>(std::lround(std::min(share, 1.0) * (kRampSteps - 1)));
}

std::string ramp_css() {
  return rules(kLight) + "\n@media (prefers-color-scheme:dark){" + rules(kDark) + "}\n";
}

}  // namespace ballast::report
