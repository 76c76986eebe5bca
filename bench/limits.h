// The machine's limits, and counters that relate a benchmark's result to them.
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

/// Returns the limits. They are measured once per process, at the first call, with the current number of threads (about
/// 400 ms).
const Limits& limits();

/// The work of one iteration.
struct Work {
  double operations = 0;  ///< a multiply-add is two
  double bytes = 0;       ///< bytes that must come from memory
  double peak_gops = 0;   ///< of the units that compute it: limits().int8_gops or limits().f32_gflops
};

/// Returns the work of dst [m][rows] = src [m][cols] times wei [rows][cols]^T with weights of `bytes` bytes.
Work matmul_work(std::size_t m, std::size_t rows, std::size_t cols, std::size_t bytes, double peak_gops);

/// Sets the counters Gop/s, GB/s, fraction_of_peak and fraction_of_bandwidth. Call after the loop.
void report(benchmark::State& state, const Work& work);

/// Returns how many copies of an operand of `bytes` bytes must be used in turn so that each has left the caches before
/// it is used again.
std::size_t copies_beyond_caches(std::size_t bytes);

}  // namespace ballast::bench

#endif  // BALLAST_BENCH_LIMITS_H_
