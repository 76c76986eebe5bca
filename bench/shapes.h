// The linears of the models that kernels are measured on, as the forward pass multiplies them: q, k and v together,
// gate and up together.
#ifndef BALLAST_BENCH_SHAPES_H_
#define BALLAST_BENCH_SHAPES_H_

#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>

namespace ballast::bench {

struct LinearShape {
  const char* model = "";
  const char* linear = "";
  std::size_t rows = 0;  ///< outputs
  std::size_t cols = 0;  ///< inputs
  bool head = false;     ///< multiplies only the last token of a prompt

  std::string name() const { return std::string(model) + "/" + linear; }
};

inline constexpr LinearShape kLinearShapes[] = {
    {"SmolLM2-135M", "qkv", 960, 576},          {"SmolLM2-135M", "o", 576, 576},
    {"SmolLM2-135M", "gate_up", 3072, 576},     {"SmolLM2-135M", "down", 576, 1536},
    {"SmolLM2-135M", "head", 49152, 576, true}, {"Qwen2.5-1.5B", "qkv", 2048, 1536},
    {"Qwen2.5-1.5B", "o", 1536, 1536},          {"Qwen2.5-1.5B", "gate_up", 17920, 1536},
    {"Qwen2.5-1.5B", "down", 1536, 8960},       {"Qwen2.5-1.5B", "head", 151936, 1536, true},
    {"Qwen2.5-7B", "qkv", 4608, 3584},          {"Qwen2.5-7B", "o", 3584, 3584},
    {"Qwen2.5-7B", "gate_up", 37888, 3584},     {"Qwen2.5-7B", "down", 3584, 18944},
    {"Qwen2.5-7B", "head", 152064, 3584, true},
};

/// Numbers of tokens that are multiplied at once: generation, several sequences, prompts.
inline constexpr std::size_t kTokenCounts[] = {1, 4, 16, 64, 512};

/// Calls body(shape, m) for every shape with the numbers of tokens that it is used with.
template <class Body>
void for_each_product(const Body& body) {
  for (const LinearShape& shape : kLinearShapes) {
    for (const std::size_t m : kTokenCounts) {
      if (!shape.head || m <= 4) body(shape, m);
    }
  }
}

/// Registers KIND/MODEL/LINEAR/m:M with run(state, shape, m) for every product of `least` tokens or more.
template <class Run>
void register_products(const std::string& kind, std::size_t least, const Run& run) {
  for_each_product([&](const LinearShape& shape, std::size_t m) {
    if (m < least) return;
    const std::string name = kind + "/" + shape.name() + "/m:" + std::to_string(m);
    benchmark::RegisterBenchmark(name.c_str(), [shape, m, run](benchmark::State& state) { run(state, shape, m); })
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
  });
}

}  // namespace ballast::bench

#endif  // BALLAST_BENCH_SHAPES_H_
