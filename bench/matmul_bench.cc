// Matrix products at SmolLM2-135M's shapes, as fractions of what this machine can do at most, measured in this process.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/float_matrix.h"
#include "kernels/machine.h"
#include "kernels/quantized_matrix.h"

namespace ballast::kernels {
namespace {

struct Limits {
  double f32_gflops = measure_f32_gflops();
  double int8_gops = measure_int8_gops();
  double read_gb_s = measure_read_gb_s();
};

const Limits& limits() {
  static const Limits measured;
  return measured;
}

/// Reports operations against a peak when m is large, bytes against read bandwidth when it is 1. `matrices` of the
/// shape are multiplied in turn, so that with m = 1 they come from memory and not from the cache.
void report(benchmark::State& state, std::size_t m, std::size_t rows, std::size_t cols, double peak,
            std::size_t bytes) {
  const double rounds = static_cast<double>(state.iterations());
  const double operations = 2.0 * static_cast<double>(m) * static_cast<double>(rows) * static_cast<double>(cols);
  using benchmark::Counter;
  state.counters["GOP/s"] = Counter(rounds * operations * 1e-9, Counter::kIsRate);
  state.counters["of_peak"] = Counter(rounds * operations * 1e-9 / peak, Counter::kIsRate);
  state.counters["of_bandwidth"] =
      Counter(rounds * static_cast<double>(bytes) * 1e-9 / limits().read_gb_s, Counter::kIsRate);
}

std::vector<float> random_floats(std::size_t count) {
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(engine);
  return values;
}

/// Copies enough to leave a 32 MB cache.
std::size_t copies_beyond_cache(std::size_t bytes) {
  return 1 + (std::size_t{128} << 20) / bytes;
}

void float_matmul(benchmark::State& state, FloatType type) {
  const std::size_t rows = static_cast<std::size_t>(state.range(0));
  const std::size_t cols = static_cast<std::size_t>(state.range(1));
  const std::size_t m = static_cast<std::size_t>(state.range(2));
  const std::size_t bytes = rows * cols * float_type_bytes(type);
  const std::size_t copies = m == 1 ? copies_beyond_cache(bytes) : 1;
  std::vector<char> weights(bytes * copies);
  from_float(random_floats(rows * cols).data(), rows * cols, type, weights.data());
  for (std::size_t i = 1; i < copies; ++i) std::memcpy(weights.data() + i * bytes, weights.data(), bytes);
  const std::vector<float> src = random_floats(m * cols);
  std::vector<float> dst(m * rows);
  std::size_t turn = 0;
  for (auto _ : state) {
    matmul({weights.data() + turn++ % copies * bytes, type, rows, cols}, src.data(), m, nullptr, dst.data(), rows);
  }
  report(state, m, rows, cols, limits().f32_gflops, bytes);
}

/// Random codes and positive scales, and what a QuantizedView needs to point to.
struct RandomMatrix {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint16_t> scales;
  QuantizedView view;

  RandomMatrix(std::size_t rows, std::size_t cols, int bits, std::size_t group_size) {
    view.rows = rows;
    view.cols = cols;
    view.bits = bits;
    view.group_size = group_size;
    std::mt19937 engine(1);
    codes.resize(rows * packed_row_bytes(cols, bits));
    for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(engine());
    scales.assign(rows * view.groups(), 0x2000);
    view.codes = codes;
    view.scales = std::as_bytes(std::span(scales));
  }
};

void quantized_matmul(benchmark::State& state, bool int8_activations) {
  const std::size_t rows = static_cast<std::size_t>(state.range(0));
  const std::size_t cols = static_cast<std::size_t>(state.range(1));
  const std::size_t m = static_cast<std::size_t>(state.range(2));
  const int bits = static_cast<int>(state.range(3));
  const std::size_t group_size = state.range(4) == 0 ? cols : static_cast<std::size_t>(state.range(4));
  const RandomMatrix random(rows, cols, bits, group_size);
  std::vector<QuantizedMatrix> matrices;
  matrices.emplace_back(random.view);
  const std::size_t copies = m == 1 ? copies_beyond_cache(matrices[0].bytes()) : 1;
  while (matrices.size() < copies) matrices.emplace_back(random.view);
  const std::vector<float> src = random_floats(m * cols);
  std::vector<float> dst(m * rows);
  Int8Activations activations;
  activations.quantize(src.data(), m, {cols, group_size, false, {}});
  std::size_t turn = 0;
  for (auto _ : state) {
    const QuantizedMatrix& matrix = matrices[turn++ % copies];
    if (int8_activations) {
      matrix.matmul(activations, m, nullptr, dst.data(), rows);
    } else {
      matrix.matmul(src.data(), m, nullptr, dst.data(), rows);
    }
  }
  report(state, m, rows, cols, int8_activations ? limits().int8_gops : limits().f32_gflops, matrices[0].bytes());
}

void shapes(benchmark::internal::Benchmark* bench, const std::vector<std::vector<std::int64_t>>& tails) {
  const std::int64_t layers[][2] = {{576, 576}, {192, 576}, {1536, 576}, {576, 1536}, {49152, 576}};
  for (const auto& layer : layers) {
    for (const std::vector<std::int64_t>& tail : tails) {
      std::vector<std::int64_t> arguments{layer[0], layer[1]};
      arguments.insert(arguments.end(), tail.begin(), tail.end());
      bench->Args(arguments);
    }
  }
  bench->UseRealTime()->Unit(benchmark::kMicrosecond);
}

void float_shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"rows", "cols", "m"});
  shapes(bench, {{1}, {16}, {128}, {512}});
}

void quantized_shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"rows", "cols", "m", "bits", "group"});
  shapes(bench, {{1, 8, 0}, {1, 8, 32}, {1, 4, 32}, {512, 8, 0}, {512, 8, 32}, {512, 4, 32}});
}

BENCHMARK_CAPTURE(float_matmul, f32, FloatType::kF32)->Apply(float_shapes);
BENCHMARK_CAPTURE(float_matmul, f16, FloatType::kF16)->Apply(float_shapes);
BENCHMARK_CAPTURE(float_matmul, bf16, FloatType::kBF16)->Apply(float_shapes);
BENCHMARK_CAPTURE(quantized_matmul, a8, true)->Apply(quantized_shapes);
BENCHMARK_CAPTURE(quantized_matmul, a16, false)->Apply(quantized_shapes);

}  // namespace
}  // namespace ballast::kernels
