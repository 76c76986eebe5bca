// Random operands for benchmarks. The values do not matter, except that none is a denormal or zero.
#ifndef BALLAST_BENCH_RANDOM_DATA_H_
#define BALLAST_BENCH_RANDOM_DATA_H_

#include <cstddef>
#include <random>
#include <vector>

namespace ballast::bench {

inline std::vector<float> random_floats(std::size_t count) {
  std::minstd_rand engine(1);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(engine);
  return values;
}

}  // namespace ballast::bench

#endif  // BALLAST_BENCH_RANDOM_DATA_H_
