// Scales map values to positions on an axis and choose its ticks.
#ifndef BALLAST_REPORT_CHART_SCALE_H_
#define BALLAST_REPORT_CHART_SCALE_H_

#include <cstddef>
#include <vector>

namespace ballast::report {

/// Maps values to [0, 1], linearly or by their logarithm. A logarithmic scale has 0 < low < high.
class Scale {
 public:
  static Scale linear(double low, double high);

  /// Creates a scale from `low` to `high`, moved outwards to the next 1, 2 or 5 of a decade. Both must be finite and >
  /// 0.
  static Scale logarithmic(double low, double high);

  /// Returns 0 at the low end, 1 at the high end, and values outside of [0, 1] beyond.
  double operator()(double value) const;

  /// Returns false for values without a position: not finite, or on a logarithmic scale not positive.
  bool has(double value) const;

  /// Returns about `most` round values inside of the scale.
  std::vector<double> ticks(std::size_t most) const;

  double low() const { return low_; }
  double high() const { return high_; }

 private:
  Scale(double low, double high, bool logarithmic) : low_(low), high_(high), logarithmic_(logarithmic) {}

  double low_;
  double high_;
  bool logarithmic_;
};

/// Returns at most `most` whole numbers in [first, last] at a round distance (1, 2, 5, 10 ...).
std::vector<std::size_t> whole_ticks(std::size_t first, std::size_t last, std::size_t most);

}  // namespace ballast::report

#endif  // BALLAST_REPORT_CHART_SCALE_H_
