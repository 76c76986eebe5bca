#include "report/chart/scale.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace ballast::report {
namespace {

constexpr std::array<double, 3> kRound = {1, 2, 5};

// Returns the first of the distances 1, 2, 5, 10, 20, ... times `unit` that divides `span` into at most `most` parts.
double round_distance(double span, double unit, std::size_t most) {
  for (double decade = unit;; decade *= 10) {
    for (const double digit : kRound) {
      if (span / (digit * decade) <= static_cast<double>(std::max<std::size_t>(most, 1))) return digit * decade;
    }
  }
}

}  // namespace

Scale Scale::linear(double low, double high) {
  return {low, high > low ? high : low + 1, false};
}

Scale Scale::logarithmic(double low, double high) {
  // Values within 1e-9 of a round number count as that number.
  const auto outward = [](double value, bool up) {
    const double decade = std::pow(10, std::floor(std::log10(value)));
    double best = up ? 10 * decade : decade;
    for (const double digit : kRound) {
      const double candidate = digit * decade;
      if (up && candidate >= value * (1 - 1e-9)) best = std::min(best, candidate);
      if (!up && candidate <= value * (1 + 1e-9)) best = std::max(best, candidate);
    }
    return best;
  };
  const double bottom = outward(low, false);
  const double top = outward(std::max(low, high), true);
  return {bottom, top > bottom ? top : 10 * bottom, true};
}

bool Scale::has(double value) const {
  return std::isfinite(value) && (!logarithmic_ || value > 0);
}

double Scale::operator()(double value) const {
  if (logarithmic_) return std::log(value / low_) / std::log(high_ / low_);
  return (value - low_) / (high_ - low_);
}

std::vector<double> Scale::ticks(std::size_t most) const {
  std::vector<double> ticks;
  if (!logarithmic_) {
    const double span = high_ - low_;
    const double distance = round_distance(span, std::pow(10, std::floor(std::log10(span)) - 2), most);
    for (double i = std::ceil(low_ / distance); i * distance <= high_ + span * 1e-9; ++i) ticks.push_back(i * distance);
    return ticks;
  }
  const int first = static_cast<int>(std::floor(std::log10(low_) + 1e-9));
  const int last = static_cast<int>(std::floor(std::log10(high_) + 1e-9));
  const auto decades = static_cast<std::size_t>(last - first + 1);
  const std::size_t digits = decades * kRound.size() <= most + 1 ? kRound.size() : 1;
  const int distance = static_cast<int>((decades + most - 1) / std::max<std::size_t>(most, 1));
  for (int decade = first; decade <= last; decade += digits > 1 ? 1 : std::max(distance, 1)) {
    for (std::size_t i = 0; i < digits; ++i) {
      const double tick = kRound[i] * std::pow(10, decade);
      if (tick >= low_ * (1 - 1e-9) && tick <= high_ * (1 + 1e-9)) ticks.push_back(tick);
    }
  }
  return ticks;
}

std::vector<std::size_t> whole_ticks(std::size_t first, std::size_t last, std::size_t most) {
  const auto distance = static_cast<std::size_t>(round_distance(static_cast<double>(last - first), 1, most - 1));
  std::vector<std::size_t> ticks;
  for (std::size_t tick = (first + distance - 1) / distance * distance; tick <= last; tick += distance) {
    ticks.push_back(tick);
  }
  return ticks;
}

}  // namespace ballast::report
