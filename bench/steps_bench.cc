// Measures the operations between matrix products: starting threads, norms, activations, rotations. One token's rows
// stay in a core's cache; those of a prompt come from memory.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "ballast/activation.h"
#include "bench/limits.h"
#include "bench/random_data.h"
#include "kernels/activation.h"
#include "kernels/norm.h"
#include "kernels/parallel.h"
#include "kernels/rope.h"

namespace ballast::bench {
namespace {

constexpr std::size_t kMuchWork = std::size_t{1} << 40;

/// Measures an empty parallel call, alone or within a step's team of threads.
void hand_over(benchmark::State& state, bool team) {
  const auto measure = [&] {
    const std::size_t threads = kernels::threads_for(kMuchWork);
    for (auto _ : state) {
      kernels::parallel_ranges(threads, threads,
                               [](std::size_t begin, std::size_t) { benchmark::DoNotOptimize(begin); });
    }
  };
  if (team) {
    kernels::with_team(measure);
  } else {
    measure();
  }
}

/// Runs body() in a team, as the forward pass does; `bytes` are read and written.
template <class Body>
void measure_pass(benchmark::State& state, double operations, double bytes, const Body& body) {
  kernels::with_team([&] {
    for (auto _ : state) body();
  });
  report(state, {.operations = operations, .bytes = bytes, .peak_gops = limits().f32_gflops});
}

void rms_norm(benchmark::State& state) {
  const auto m = static_cast<std::size_t>(state.range(0));
  const auto size = static_cast<std::size_t>(state.range(1));
  const std::vector<float> src = random_floats(m * size);
  const std::vector<float> gain = random_floats(size);
  std::vector<float> dst(m * size);
  const auto count = static_cast<double>(m * size);
  measure_pass(state, 4 * count, 8 * count,
               [&] { kernels::rms_norm(src.data(), m, size, {.gain = gain.data()}, dst.data()); });
}

void activation(benchmark::State& state, Activation kind) {
  const auto m = static_cast<std::size_t>(state.range(0));
  const auto size = static_cast<std::size_t>(state.range(1));
  const std::vector<float> gate = random_floats(m * size);
  const std::vector<float> up = random_floats(m * size);
  std::vector<float> dst(m * size);
  const auto count = static_cast<double>(m * size);
  measure_pass(state, count, 12 * count,
               [&] { kernels::activate_multiply(kind, gate.data(), up.data(), m * size, dst.data()); });
}

void rope(benchmark::State& state) {
  constexpr std::size_t kHeadSize = 64;
  const auto m = static_cast<std::size_t>(state.range(0));
  const auto size = static_cast<std::size_t>(state.range(1));
  std::vector<float> x = random_floats(m * size);
  const std::vector<float> cos(m * kHeadSize / 2, 0.8F);
  const std::vector<float> sin(m * kHeadSize / 2, 0.6F);
  const auto count = static_cast<double>(m * size);
  measure_pass(state, 3 * count, 8 * count, [&] {
    kernels::rope(x.data(), m, size / kHeadSize, kHeadSize, kHeadSize, size, cos.data(), sin.data());
  });
}

/// SmolLM2-135M, Qwen2.5-1.5B and 7B, for one token and for a prompt.
void sizes(benchmark::internal::Benchmark* bench, const std::vector<std::int64_t>& sizes) {
  bench->ArgNames({"m", "size"})->ArgsProduct({{1, 512}, sizes})->UseRealTime()->Unit(benchmark::kMicrosecond);
}
void hidden_sizes(benchmark::internal::Benchmark* bench) {
  sizes(bench, {576, 1536, 3584});
}
void mlp_sizes(benchmark::internal::Benchmark* bench) {
  sizes(bench, {1536, 8960, 18944});
}
void query_and_key_sizes(benchmark::internal::Benchmark* bench) {
  sizes(bench, {768, 1792, 4096});
}

BENCHMARK_CAPTURE(hand_over, alone, false)->UseRealTime();
BENCHMARK_CAPTURE(hand_over, team, true)->UseRealTime();
BENCHMARK(rms_norm)->Apply(hidden_sizes);
BENCHMARK_CAPTURE(activation, silu, Activation::kSilu)->Apply(mlp_sizes);
BENCHMARK_CAPTURE(activation, gelu, Activation::kGelu)->Apply(mlp_sizes);
BENCHMARK(rope)->Apply(query_and_key_sizes);

}  // namespace
}  // namespace ballast::bench
