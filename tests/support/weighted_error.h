#ifndef BALLAST_TESTS_SUPPORT_WEIGHTED_ERROR_H_
#define BALLAST_TESTS_SUPPORT_WEIGHTED_ERROR_H_

#include <cstddef>
#include <span>

namespace ballast::test {

/// Returns the sum of the squared differences of two rows [weights.size()], each multiplied by its column's weight.
inline double weighted_error(std::span<const float> values, std::span<const float> others,
                             std::span<const float> weights) {
  double error = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double difference = double{values[i]} - double{others[i]};
    error += double{weights[i % weights.size()]} * difference * difference;
  }
  return error;
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_WEIGHTED_ERROR_H_
