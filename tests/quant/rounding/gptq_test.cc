#include "quant/quantize/gptq.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <variant>
#include <vector>

#include "ballast/error.h"
#include "kernels/float_gemm.h"
#include "kernels/matrix/quantized_matrix.h"
#include "quant/rounding/rounding.h"
#include "with_threads.h"

namespace ballast::quant {
namespace {

constexpr std::size_t kInputTokens = 300;

/// Inputs whose channels depend on each other and differ in size.
std::vector<float> correlated_inputs(std::size_t cols, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal;
  constexpr std::size_t kSources = 12;
  std::vector<float> mixing(cols * kSources);
  for (float& value : mixing) value = normal(engine);
  std::vector<float> inputs(kInputTokens * cols);
  for (std::size_t t = 0; t < kInputTokens; ++t) {
    std::vector<float> sources(kSources);
    for (float& value : sources) value = normal(engine);
    for (std::size_t c = 0; c < cols; ++c) {
      float value = 0.3F * normal(engine);
      for (std::size_t s = 0; s < kSources; ++s) value += mixing[c * kSources + s] * sources[s];
      inputs[t * cols + c] = value * std::exp(0.02F * static_cast<float>(c % 37));
    }
  }
  return inputs;
}

WorkingLinear random_linear(std::size_t rows, std::size_t cols, const WeightFormat& format) {
  std::mt19937_64 engine(rows * 1000 + cols);
  std::normal_distribution<float> normal;
  WorkingLinear linear;
  linear.rows = rows;
  linear.cols = cols;
  linear.format = format;
  linear.values.resize(rows * cols);
  for (float& value : linear.values) linear.absmax = std::max(linear.absmax, std::abs(value = normal(engine)));
  return linear;
}

Hessian moments_of(const std::vector<float>& inputs, std::size_t cols) {
  HessianSum sum(cols, jobs::SumOrder::kAny);
  // In two unequal batches.
  sum.add(inputs.data(), 100);
  sum.add(inputs.data() + 100 * cols, kInputTokens - 100);
  sum.end_shard(0);
  return sum.finish(single_rank());
}

/// Squared error of all outputs over all tokens, in F64.
double output_error(const WorkingLinear& linear, const formats::CodeMatrix& rounded, const std::vector<float>& inputs) {
  const kernels::QuantizedMatrix matrix = rounded.packed();
  std::vector<float> row(linear.cols);
  double error = 0;
  for (std::size_t r = 0; r < linear.rows; ++r) {
    matrix.decode_row(r, row.data());
    for (std::size_t t = 0; t < kInputTokens; ++t) {
      double difference = 0;
      for (std::size_t c = 0; c < linear.cols; ++c) {
        difference +=
            (double{linear.values[r * linear.cols + c]} - double{row[c]}) * double{inputs[t * linear.cols + c]};
      }
      error += difference * difference;
    }
  }
  return error;
}

TEST_CASE("moments are the sums of products of the inputs") {
  // Both factors of a product are rounded to 8 bits.
  const double precision = kernels::multiplies_bf16() ? 4e-3 : 1e-5;
  for (const std::size_t cols : {std::size_t{1}, std::size_t{33}, std::size_t{300}}) {
    CAPTURE(cols);
    const std::vector<float> inputs = correlated_inputs(cols, 7);
    const Hessian moments = moments_of(inputs, cols);
    CHECK(moments.rows == kInputTokens);
    for (std::size_t i = 0; i < cols; i += 7) {
      for (std::size_t j = 0; j < cols; j += 5) {
        double expected = 0;
        double size = 0;
        for (std::size_t t = 0; t < kInputTokens; ++t) {
          const double product = double{inputs[t * cols + i]} * double{inputs[t * cols + j]};
          expected += product;
          size += std::abs(product);
        }
        CHECK(std::abs(double{moments.values[i * cols + j]} - expected) <= precision * size);
        CHECK(moments.values[i * cols + j] == moments.values[j * cols + i]);
      }
    }
  }
}

TEST_CASE("a factor for cells keeps their columns together, cells with more energy first") {
  constexpr std::size_t kCols = 64;
  constexpr std::size_t kCell = 8;
  const Hessian moments = moments_of(correlated_inputs(kCols, 3), kCols);
  const InverseCholesky factor = factorize(moments, {}, 0.01, kCell);
  CHECK(factor.cell == kCell);
  const auto energy = [&](std::size_t rank) {
    const auto c = static_cast<std::size_t>(factor.order[rank]);
    return moments.values[c * (kCols + 1)];
  };
  double last = 1e30;
  for (std::size_t rank = 0; rank < kCols; rank += kCell) {
    double sum = 0;
    CHECK(factor.order[rank] % std::int32_t{kCell} == 0);
    for (std::size_t i = 0; i < kCell; ++i) {
      CHECK(factor.order[rank + i] == factor.order[rank] + static_cast<std::int32_t>(i));
      sum += double{energy(rank + i)};
    }
    CHECK(sum <= last);
    last = sum;
  }
}

TEST_CASE("a factor inverts the damped moments in its order, kept columns last") {
  constexpr std::size_t kCols = 40;
  const Hessian moments = moments_of(correlated_inputs(kCols, 3), kCols);
  const std::vector<std::int32_t> kept = {4, 17};
  const InverseCholesky factor = factorize(moments, kept, 0.01);
  CHECK(factor.order[kCols - 2] + factor.order[kCols - 1] == 21);
  double trace = 0;
  for (std::size_t c = 0; c < kCols; ++c) trace += double{moments.values[c * kCols + c]};
  const auto damped = [&](std::size_t a, std::size_t b) {
    const auto i = static_cast<std::size_t>(factor.order[a]);
    const auto j = static_cast<std::size_t>(factor.order[b]);
    return double{moments.values[i * kCols + j]} + (a == b ? 0.01 * trace / kCols : 0);
  };
  // R^T R H must be the identity.
  for (std::size_t i = 0; i < kCols; ++i) {
    for (std::size_t j = 0; j < kCols; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < kCols; ++k) {
        double inverse = 0;
        for (std::size_t p = 0; p <= std::min(i, k); ++p) {
          inverse += double{factor.upper[p * kCols + i]} * double{factor.upper[p * kCols + k]};
        }
        sum += inverse * damped(k, j);
      }
      CHECK(std::abs(sum - (i == j ? 1.0 : 0.0)) <= 1e-3);
    }
  }
}

void check_against_nearest(const WeightFormat& format, std::size_t cols) {
  CAPTURE(format_name(format));
  CAPTURE(cols);
  const std::vector<float> inputs = correlated_inputs(cols, 11);
  const WorkingLinear linear = random_linear(23, cols, format);
  const InverseCholesky factor = factorize(moments_of(inputs, cols), {}, 0.01, rounding_cell(format));
  const double nearest =
      output_error(linear,
                   round_to_nearest(linear.values, linear.rows, cols, linear.format, {}, linear.absmax,
                                    {.method = GridMethod::kSearch, .importance = factor.importance}),
                   inputs);
  CHECK(output_error(linear, round_gptq(linear, factor), inputs) < 0.7 * nearest);
}

TEST_CASE("GPTQ has less output error than rounding to the nearest of the same grids") {
  for (const char* name : {"int4-g32-asym", "int4-g32", "int5-g64-asym-s8", "int6-g32-s8", "int8-g64", "int4-channel",
                           "nl2-g32-s8", "nl3-g64-s8", "nl4-g32", "nl5-g64-s8", "nl7-g128-s8"}) {
    for (const std::size_t cols : {std::size_t{72}, std::size_t{160}}) check_against_nearest(parse_format(name), cols);
  }
  for (const WeightFormat& format : affine_formats()) check_against_nearest(format, 256);
  for (const DType type : writable_block_types()) check_against_nearest(block_format(type), 256);
}

TEST_CASE("each row is rounded on its own, of however many") {
  constexpr std::size_t kCols = 8;
  constexpr std::size_t kPeriod = 23;
  const Hessian moments = moments_of(correlated_inputs(kCols, 3), kCols);
  WorkingLinear few = random_linear(kPeriod, kCols, parse_format("int4-g32-asym"));
  WorkingLinear many = few;  // more than are rounded at once
  many.rows = 3000 * kPeriod;
  for (std::size_t i = many.values.size(); i < many.rows * kCols; ++i) {
    many.values.push_back(many.values[i - kPeriod * kCols]);
  }
  const InverseCholesky factor = factorize(moments, {}, 0.01);
  const formats::CodeMatrix once = round_gptq(few, factor);
  const formats::CodeMatrix often = round_gptq(many, factor);
  const auto& row = once;
  const auto& all = often;
  for (std::size_t i = 0; i < all.codes.size(); ++i) REQUIRE(all.codes[i] == row.codes[i % row.codes.size()]);
  for (std::size_t i = 0; i < all.scales.size(); ++i) REQUIRE(all.scales[i] == row.scales[i % row.scales.size()]);
}

TEST_CASE("columns that keep 16 bits make up for the others") {
  constexpr std::size_t kCols = 96;
  const std::vector<float> inputs = correlated_inputs(kCols, 5);
  WorkingLinear linear = random_linear(16, kCols, parse_format("int4-g32-asym"));
  const Hessian moments = moments_of(inputs, kCols);
  const double without = output_error(linear, round_gptq(linear, factorize(moments, {}, 0.01)), inputs);
  linear.outlier_columns = {3, 40, 95};
  const formats::CodeMatrix rounded = round_gptq(linear, factorize(moments, linear.outlier_columns, 0.01));
  CHECK(rounded.outlier_columns == linear.outlier_columns);
  CHECK(output_error(linear, rounded, inputs) < 0.9 * without);
}

TEST_CASE("a channel that is always zero costs nothing and breaks nothing") {
  constexpr std::size_t kCols = 64;
  std::vector<float> inputs = correlated_inputs(kCols, 9);
  for (std::size_t t = 0; t < kInputTokens; ++t) inputs[t * kCols + 6] = 0;
  const WorkingLinear linear = random_linear(8, kCols, parse_format("int4-g32-asym"));
  const auto error_with = [&](const std::vector<float>& calibration) {
    return output_error(linear, round_gptq(linear, factorize(moments_of(calibration, kCols), {}, 0.01)), inputs);
  };
  const double without_moments = error_with(std::vector<float>(kInputTokens * kCols));
  CHECK(std::isfinite(without_moments));
  CHECK(error_with(inputs) < without_moments);
}

TEST_CASE("GPTQ gives the same bytes for any number of threads") {
  for (const WeightFormat& format : {parse_format("int4-g64-asym-s8"), parse_format("nl3-g32-s8"),
                                     block_format(DType::kIQ2_XXS), block_format(DType::kIQ3_S)}) {
    CAPTURE(format_name(format));
    // Blocks must be whole; other columns end in the midst of a group.
    const std::size_t cols = format.kind == WeightFormat::Kind::kBlocks ? 256 : 200;
    const std::vector<float> inputs = correlated_inputs(cols, 2);
    const WorkingLinear linear = random_linear(50, cols, format);
    std::optional<formats::CodeMatrix> first;
    for (const int threads : {1, 2, 3}) {
      test::with_threads(threads, [&] {
        const InverseCholesky factor = factorize(moments_of(inputs, cols), {}, 0.01, rounding_cell(format));
        const formats::CodeMatrix matrix = round_gptq(linear, factor);
        if (!first) first = matrix;
        CHECK(matrix.codes == first->codes);
        CHECK(matrix.scales == first->scales);
        CHECK(matrix.scale_codes == first->scale_codes);
        CHECK(matrix.zeros == first->zeros);
      });
    }
  }
}

TEST_CASE("moments that are not finite are refused") {
  constexpr std::size_t kCols = 2;
  const Hessian moments{.cols = kCols, .rows = 4, .values = {1, 0, 0, std::numeric_limits<float>::quiet_NaN()}};
  CHECK_THROWS_WITH_AS(factorize(moments, {}, 0.01),
                       "calibration: the second moments of an input of 2 channels are not finite", Error);
}

}  // namespace
}  // namespace ballast::quant
