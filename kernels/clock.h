// Measures time.
#ifndef BALLAST_KERNELS_CLOCK_H_
#define BALLAST_KERNELS_CLOCK_H_

#include <chrono>

namespace ballast::kernels {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_CLOCK_H_
