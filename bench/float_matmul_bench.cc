// Measures products with F32, F16 and BF16 weights.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/limits.h"
#include "bench/random_data.h"
#include "bench/shapes.h"
#include "kernels/matrix/float_matrix.h"

namespace ballast::bench {
namespace {

using kernels::FloatType;

/// Copies of one matrix in panels, used in turn.
class Weights {
 public:
  Weights(const LinearShape& shape, FloatType type)
      : bytes_(shape.rows * shape.cols * kernels::float_type_bytes(type)) {
    const auto rows = std::make_unique_for_overwrite<std::byte[]>(bytes_);
    kernels::from_float(random_floats(shape.rows * shape.cols).data(), shape.rows * shape.cols, type, rows.get());
    const std::size_t copies = copies_beyond_caches(bytes_);
    for (std::size_t i = 0; i < copies; ++i) {
      copies_.emplace_back(kernels::FloatMatrix{rows.get(), type, shape.rows, shape.cols});
    }
  }

  std::size_t bytes() const { return bytes_; }
  kernels::FloatMatrix next() { return copies_[turn_++ % copies_.size()].matrix(); }

 private:
  std::size_t bytes_;
  std::vector<kernels::FloatPanels> copies_;
  std::size_t turn_ = 0;
};

void float_matmul(benchmark::State& state, const LinearShape& shape, std::size_t m, FloatType type) {
  Weights weights(shape, type);
  const std::vector<float> src = random_floats(m * shape.cols);
  std::vector<float> dst(m * shape.rows);
  for (auto _ : state) {
    const kernels::FloatMatrix matrix = weights.next();
    const kernels::FloatOutput output[] = {{.matrix = &matrix, .dst = dst.data(), .stride = shape.rows}};
    kernels::matmul(output, src.data(), m);
  }
  report(state, matmul_work(m, shape.rows, shape.cols, weights.bytes(), limits().f32_gflops));
}

const bool kRegistered = [] {
  const std::pair<const char*, FloatType> types[] = {
      {"f32", FloatType::kF32}, {"f16", FloatType::kF16}, {"bf16", FloatType::kBF16}};
  for (const auto& [name, type] : types) {
    register_products(std::string("float_matmul/") + name, 1,
                      [kind = type](benchmark::State& state, const LinearShape& shape, std::size_t m) {
                        float_matmul(state, shape, m, kind);
                      });
  }
  return true;
}();

}  // namespace
}  // namespace ballast::bench
