#include "bench/limits.h"

#include <unistd.h>

#include <algorithm>

#include "kernels/machine.h"

namespace ballast::bench {

const Limits& limits() {
  static const Limits measured{.read_gb_s = kernels::measure_read_gb_s(),
                               .int8_gops = kernels::measure_int8_gops(),
                               .f32_gflops = kernels::measure_f32_gflops()};
  return measured;
}

Work matmul_work(std::size_t m, std::size_t rows, std::size_t cols, std::size_t bytes, double peak_gops) {
  return {.operations = 2.0 * static_cast<double>(m) * static_cast<double>(rows) * static_cast<double>(cols),
          .bytes = static_cast<double>(bytes),
          .peak_gops = peak_gops};
}

void report(benchmark::State& state, const Work& work) {
  using benchmark::Counter;
  const auto per_second = [&](double amount) { return Counter(amount, Counter::kIsIterationInvariantRate); };
  state.counters["Gop/s"] = per_second(work.operations * 1e-9);
  state.counters["GB/s"] = per_second(work.bytes * 1e-9);
  state.counters["fraction_of_peak"] = per_second(work.operations * 1e-9 / work.peak_gops);
  state.counters["fraction_of_bandwidth"] = per_second(work.bytes * 1e-9 / limits().read_gb_s);
}

std::size_t copies_beyond_caches(std::size_t bytes) {
  // Virtual machines may report 0 or -1 for the shared cache; 64 MB is more than most have.
  const long reported = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const std::size_t caches = std::max(std::size_t{64} << 20, static_cast<std::size_t>(std::max(reported, 0L)));
  return 1 + 2 * caches / std::max<std::size_t>(bytes, 1);
}

}  // namespace ballast::bench
