#include "engine/step_times.h"

#include <algorithm>

namespace ballast::engine {
namespace {

/// The weight of the latest value in the moving averages.
constexpr double kLatest = 1.0 / 8;

/// The relative cost of one more row before it is measured: SmolLM2 and Qwen2.5-1.5B, INT4 and INT8, take 0 to 0.3.
constexpr double kExpectedRowCost = 0.2;

/// A step that something else delayed counts as one of this many times the expected seconds.
constexpr double kLongestDelay = 2;

/// The part of what a knot is slower than expected that a step elsewhere makes it forget: a number of rows that was
/// slow once, because something else delayed it, would otherwise never be tried again.
constexpr double kForgottenDelay = 1.0 / 256;

}  // namespace

StepTimes::Place StepTimes::place_of(std::size_t rows) {
  std::size_t upper = 0;
  while (upper + 1 < kKnots.size() && kKnots[upper] < rows) ++upper;
  if (kKnots[upper] == rows) return {.lower = upper, .upper = upper, .weight = 0};
  // Above the last knot the last line goes on, with a weight above 1.
  const std::size_t lower = upper - 1;
  const auto width = static_cast<double>(kKnots[upper] - kKnots[lower]);
  return {.lower = lower, .upper = upper, .weight = static_cast<double>(rows - kKnots[lower]) / width};
}

double StepTimes::seconds(std::size_t rows) const {
  const Place place = place_of(rows);
  return seconds_[place.lower] + place.weight * (seconds_[place.upper] - seconds_[place.lower]);
}

void StepTimes::measure(std::size_t rows, double seconds) {
  if (rows == 0 || rows > kMostRows) return;
  const Place place = place_of(rows);
  if (!known()) {
    const double scale = seconds / (1 + kExpectedRowCost * static_cast<double>(rows - 1));
    for (std::size_t i = 0; i < kKnots.size(); ++i) {
      seconds_[i] = scale * (1 + kExpectedRowCost * static_cast<double>(kKnots[i] - 1));
    }
  }
  const double expected = this->seconds(rows);
  const double error = std::min(seconds, kLongestDelay * expected) - expected;
  // The error is shared by the knots such that at `rows` the whole of it would be corrected.
  const double lower = 1 - place.weight;
  const double norm = lower * lower + place.weight * place.weight;
  record(place.lower, lower, error / norm);
  if (place.upper != place.lower) record(place.upper, place.weight, error / norm);
  forget_above(place.upper);
  estimate_others();
}

void StepTimes::forget_above(std::size_t knot) {
  const auto rows = static_cast<double>(kKnots[knot]);
  const double row = kExpectedRowCost * seconds_[knot] / (1 + kExpectedRowCost * (rows - 1));
  for (std::size_t k = knot + 1; k < kKnots.size(); ++k) {
    const double expected = seconds_[knot] + row * (static_cast<double>(kKnots[k]) - rows);
    if (measured_[k]) seconds_[k] -= kForgottenDelay * std::max(0.0, seconds_[k] - expected);
  }
}

/// Moves a knot's average by its part of an error, and by all of that the first time.
void StepTimes::record(std::size_t knot, double weight, double error) {
  constexpr double kNear = 0.25;  // a measurement that is farther away says too little about a knot
  if (!measured_[knot] && weight < kNear) return;
  const double rate = measured_[knot] ? kLatest : 1.0;
  seconds_[knot] = std::max(0.0, seconds_[knot] + rate * weight * error);
  measured_[knot] = true;
}

/// Puts the knots that are not measured on lines through those that are. Above the last one a row costs what it costs
/// on average from the first to the last one.
void StepTimes::estimate_others() {
  const auto first = static_cast<std::size_t>(std::ranges::find(measured_, true) - measured_.begin());
  std::size_t last = first;
  for (std::size_t i = first + 1; i < kKnots.size(); ++i) {
    if (!measured_[i]) continue;
    const double slope = (seconds_[i] - seconds_[last]) / static_cast<double>(kKnots[i] - kKnots[last]);
    for (std::size_t k = last + 1; k < i; ++k) {
      seconds_[k] = seconds_[last] + slope * static_cast<double>(kKnots[k] - kKnots[last]);
    }
    last = i;
  }
  const double one = 1 + kExpectedRowCost * static_cast<double>(kKnots[first] - 1);
  for (std::size_t k = 0; k < first; ++k) {
    seconds_[k] = seconds_[first] / one * (1 + kExpectedRowCost * static_cast<double>(kKnots[k] - 1));
  }
  const double slope = last == first ? kExpectedRowCost * seconds_[first] / one
                                     : std::max(0.0, seconds_[last] - seconds_[first]) /
                                           static_cast<double>(kKnots[last] - kKnots[first]);
  for (std::size_t k = last + 1; k < kKnots.size(); ++k) {
    seconds_[k] = seconds_[last] + slope * static_cast<double>(kKnots[k] - kKnots[last]);
  }
}

}  // namespace ballast::engine
