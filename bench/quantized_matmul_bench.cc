// Measures products of quantized activations with quantized weights, with and without outlier columns.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "bench/limits.h"
#include "bench/random_data.h"
#include "bench/shapes.h"
#include "kernels/matrix/quantized_matrix.h"

namespace ballast::bench {
namespace {

/// One way of storing weights and activations.
using enum ActivationType;

struct Format {
  int weight_bits = 8;
  std::size_t group_size = 0;  ///< 0: per channel
  ActivationType activations = kInt8;
  bool asymmetric = false;
  double outliers = 0;  ///< share of the columns kept in 16 bits
  CodebookId codebook = CodebookId::kUniform;

  int activation_bits() const { return activations == kInt16 ? 16 : 8; }

  std::string name() const {
    return std::string(codebook == CodebookId::kUniform ? "w" : "nl") + std::to_string(weight_bits) + "a" +
           std::to_string(activation_bits()) + "-" + (group_size == 0 ? "channel" : "g" + std::to_string(group_size)) +
           (asymmetric ? "-asym" : "") + (outliers > 0 ? "-outliers" : "");
  }
};

constexpr Format kFormats[] = {
    {8, 0, kInt8},
    {8, 64, kInt8},
    {8, 64, kInt8, false, 0.01},
    {6, 64, kInt8},
    {5, 64, kInt8},
    {4, 32, kInt8},
    {4, 32, kInt8, true},
    {4, 32, kInt8, false, 0.01},
    {4, 128, kInt8},
    {8, 64, kInt16},
    {4, 32, kInt16},
    {.weight_bits = 2, .group_size = 32, .codebook = CodebookId::kNl2},
    {.weight_bits = 3, .group_size = 32, .codebook = CodebookId::kNl3},
    {.weight_bits = 4, .group_size = 32, .codebook = CodebookId::kNl4},
    {.weight_bits = 5, .group_size = 64, .codebook = CodebookId::kNl5},
    {.weight_bits = 2, .group_size = 32, .activations = kInt16, .codebook = CodebookId::kNl2},
    {.weight_bits = 3, .group_size = 32, .activations = kInt16, .codebook = CodebookId::kNl3},
    {.weight_bits = 4, .group_size = 32, .activations = kInt16, .codebook = CodebookId::kNl4},
};

/// Random codes, positive scales, and the other arrays of a QuantizedView.
class RandomWeights {
 public:
  RandomWeights(const LinearShape& shape, const Format& format) {
    view_.rows = shape.rows;
    view_.cols = shape.cols;
    view_.bits = format.weight_bits;
    view_.codebook = format.codebook;
    view_.group_size = format.group_size == 0 ? shape.cols : format.group_size;
    fill(codes_, shape.rows * packed_row_bytes(shape.cols, format.weight_bits));
    scales_.assign(shape.rows * view_.groups(), 0x2000);  // 2^-7 as F16
    view_.codes = codes_;
    view_.scales = std::as_bytes(std::span(scales_));
    if (format.asymmetric) fill(zeros_, shape.rows * packed_row_bytes(view_.groups(), format.weight_bits));
    view_.zeros = zeros_;
    const auto outliers = static_cast<std::size_t>(format.outliers * static_cast<double>(shape.cols));
    for (std::size_t i = 0; i < outliers; ++i) {
      outlier_columns_.push_back(static_cast<std::int32_t>(i * shape.cols / outliers));
    }
    outlier_weights_.assign(shape.rows * outliers, 0x2000);
    view_.outlier_columns = outlier_columns_;
    view_.outlier_weights = std::as_bytes(std::span(outlier_weights_));
  }

  const QuantizedView& view() const { return view_; }

 private:
  static void fill(std::vector<std::uint8_t>& bytes, std::size_t count) {
    std::minstd_rand engine(1);
    bytes.resize(count);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(engine() >> 8);
  }

  std::vector<std::uint8_t> codes_;
  std::vector<std::uint16_t> scales_;
  std::vector<std::uint8_t> zeros_;
  std::vector<std::int32_t> outlier_columns_;
  std::vector<std::uint16_t> outlier_weights_;
  QuantizedView view_;
};

std::vector<kernels::QuantizedMatrix> random_matrices(const LinearShape& shape, const Format& format) {
  const RandomWeights random(shape, format);
  std::vector<kernels::QuantizedMatrix> matrices;
  matrices.emplace_back(random.view());
  const std::size_t copies = copies_beyond_caches(matrices[0].bytes());
  while (matrices.size() < copies) matrices.emplace_back(random.view());
  return matrices;
}

void quantized_matmul(benchmark::State& state, const LinearShape& shape, std::size_t m, const Format& format) {
  const std::vector<kernels::QuantizedMatrix> matrices = random_matrices(shape, format);
  const std::vector<float> src = random_floats(m * shape.cols);
  std::vector<float> dst(m * shape.rows);
  kernels::QuantizedActivations activations;
  activations.quantize(kernels::RowSource(src.data(), shape.cols), m,
                       matrices[0].activation_quantization(format.activations, true));
  std::size_t turn = 0;
  for (auto _ : state) {
    const kernels::QuantizedMatrix& matrix = matrices[turn++ % matrices.size()];
    const kernels::QuantizedOutput products[] = {{&activations, &matrix, nullptr, dst.data(), shape.rows}};
    matmul(products);
  }
  Work work = matmul_work(m, shape.rows, shape.cols, matrices[0].bytes(), limits().int8_gops);
  work.operations *= format.activation_bits() / 8.0;  // 16 bits are two planes of 8
  report(state, work);
}

const bool kRegistered = [] {
  for (const Format& format : kFormats) {
    register_products("quantized_matmul/" + format.name(), 1,
                      [format](benchmark::State& state, const LinearShape& shape, std::size_t m) {
                        quantized_matmul(state, shape, m, format);
                      });
  }
  return true;
}();

}  // namespace
}  // namespace ballast::bench
