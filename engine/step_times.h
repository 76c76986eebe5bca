// Estimates how long a step of the model takes.
#ifndef BALLAST_ENGINE_STEP_TIMES_H_
#define BALLAST_ENGINE_STEP_TIMES_H_

#include <algorithm>
#include <array>
#include <cstddef>

namespace ballast::engine {

/// The seconds of a step by its number of rows, which are the tokens that it runs: moving averages at powers of two,
/// and straight lines between them. A few rows more are nearly free if memory bandwidth is the limit, because the
/// weights are read once for all of them.
class StepTimes {
 public:
  /// Returns whether a step was measured.
  bool known() const { return std::ranges::find(measured_, true) != measured_.end(); }

  /// Returns the expected seconds of a step with `rows` rows, at least 1. Precondition: known().
  double seconds(std::size_t rows) const;

  /// Records a step. Steps with more than kMostRows rows are ignored.
  void measure(std::size_t rows, double seconds);

  static constexpr std::size_t kMostRows = 256;

 private:
  static constexpr std::array<std::size_t, 9> kKnots = {1, 2, 4, 8, 16, 32, 64, 128, kMostRows};

  /// The knots around a number of rows, and the weight of the upper one.
  struct Place {
    std::size_t lower;
    std::size_t upper;
    double weight;
  };

  static Place place_of(std::size_t rows);
  void record(std::size_t knot, double weight, double error);
  void forget_above(std::size_t knot);
  void estimate_others();

  std::array<double, kKnots.size()> seconds_{};
  std::array<bool, kKnots.size()> measured_{};
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_STEP_TIMES_H_
