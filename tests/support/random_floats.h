#ifndef BALLAST_TESTS_SUPPORT_RANDOM_FLOATS_H_
#define BALLAST_TESTS_SUPPORT_RANDOM_FLOATS_H_

#include <cstddef>
#include <random>
#include <vector>

namespace ballast::test {

/// Returns normally distributed values with mean 0.
inline std::vector<float> random_floats(std::size_t count, unsigned seed, float spread = 1.0F) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0F, spread);
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_RANDOM_FLOATS_H_
