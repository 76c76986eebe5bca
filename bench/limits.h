// What the machine can do at most, and how a benchmark reports itself beside that.
#ifndef BALLAST_BENCH_LIMITS_H_
#define BALLAST_BENCH_LIMITS_H_

#include <benchmark/benchmark.h>

#include <cstddef>

namespace ballast::bench {

struct Limits {
  double read_gb_s = 0;
  double int8_gops = 0;
  double f32_gflops = 0;
};

/// Measured once per process, at the first call, with the threads of that moment: ~400 ms.
const Limits& limits();

/// What one iteration does.
struct Work {
  double operations = 0;  ///< a multiply-add is two
  double bytes = 0;       ///< that must come from memory
  double peak_gops = 0;   ///< of the units that it runs on: limits().int8_gops or limits().f32_gflops
};

/// Work of dst [m][rows] = src [m][cols] times wei [rows][cols]^T with weights of `bytes`.
Work matmul_work(std::size_t m, std::size_t rows, std::size_t cols, std::size_t bytes, double peak_gops);

/// Sets the counters Gop/s, GB/s, fraction_of_peak and fraction_of_bandwidth. Call after the loop.
void report(benchmark::State& state, const Work& work);

/// Copies of an operand of `bytes` to use in turn, so that each has left the caches when its turn comes again.
std::size_t copies_beyond_caches(std::size_t bytes);

}  // namespace ballast::bench

#endif  // BALLAST_BENCH_LIMITS_H_
