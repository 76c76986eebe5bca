// Rounding to MLX's groups.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kernels/matrix/quantized_matrix.h"
#include "quant/rounding/grid_finder.h"
#include "quant/rounding/rounding.h"
#include "weighted_error.h"
#include "with_threads.h"

namespace ballast::quant {
namespace {

using test::weighted_error;

constexpr std::size_t kAffineRows = 6;
constexpr std::size_t kAffineCols = 512;

/// Values as matrices have them, many small, few large, and not around zero.
std::vector<float> lopsided_rows() {
  std::mt19937 random(5);
  std::vector<float> values(kAffineRows * kAffineCols);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.02F;
    for (int j = 0; j < 6; ++j) values[i] += 0.05F * (static_cast<float>(random() % 2001) / 1000.0F - 1.0F);
    const std::size_t row = i / kAffineCols;
    values[i] *= static_cast<float>(1 + row);
  }
  return values;
}

std::vector<float> rounded(const std::vector<float>& values, const WeightFormat& format,
                           const RoundingOptions& options) {
  const std::size_t rows = values.size() / kAffineCols;
  const kernels::QuantizedMatrix matrix = round_to_nearest(values, rows, kAffineCols, format, {}, 2, options).packed();
  std::vector<float> result(values.size());
  for (std::size_t r = 0; r < rows; ++r) matrix.decode_row(r, result.data() + r * kAffineCols);
  return result;
}

TEST_CASE("groups of MLX are read as the grids promise, in either type of 16 bits") {
  const std::vector<float> values = lopsided_rows();
  const std::vector<std::uint8_t> all(kAffineCols, 1);
  for (const WeightFormat& format : affine_formats()) {
    for (const DType type : {DType::kF16, DType::kBF16}) {
      for (const GridMethod method : {GridMethod::kRange, GridMethod::kSearch}) {
        CAPTURE(format_name(format));
        CAPTURE(dtype_info(type).name);
        const std::vector<float> read = rounded(values, format, {.method = method, .half_type = type});
        GridFinder finder(format, type, method, {.quantized_mask = all});
        const QuantRange range(format);
        RowGrids grids;
        std::size_t other = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
          if (i % kAffineCols == 0) finder.find(std::span(values).subspan(i, kAffineCols), grids);
          const QuantParams& grid = grids.groups[i % kAffineCols / format.group_size];
          other += read[i] != value_of(code_of(values[i], grid, range), grid) ? 1 : 0;
        }
        CHECK(other == 0);
      }
    }
  }
}

TEST_CASE("groups of MLX lose what their bits allow, and searched ones less than those over the range") {
  // Root mean square errors over the values' size of searched groups of 64; measured plus a tenth.
  const std::map<int, double> budgets = {{2, 0.36}, {3, 0.165}, {4, 0.078}, {5, 0.038}, {6, 0.0185}, {8, 0.006}};
  const std::vector<float> values = lopsided_rows();
  const std::vector<float> ones(kAffineCols, 1.0F);
  const double size = weighted_error(values, std::vector<float>(values.size()), ones);
  for (const DType type : {DType::kF16, DType::kBF16}) {
    for (const WeightFormat& format : affine_formats()) {
      CAPTURE(format_name(format));
      CAPTURE(dtype_info(type).name);
      const double range = weighted_error(values, rounded(values, format, {.half_type = type}), ones);
      const double search =
          weighted_error(values, rounded(values, format, {.method = GridMethod::kSearch, .half_type = type}), ones);
      CHECK(search <= range);
      if (format.bits <= 4) CHECK(search < 0.9 * range);
      if (format.group_size != 64) continue;
      CHECK(std::sqrt(search / size) <= budgets.at(format.bits));
      CHECK(std::sqrt(search / size) >= 0.6 * budgets.at(format.bits));
    }
  }
}

TEST_CASE("importance moves the grids of MLX to where it is high") {
  const std::vector<float> values = lopsided_rows();
  std::mt19937 random(12);
  std::vector<float> importance(kAffineCols);
  for (float& value : importance) value = std::exp2(static_cast<float>(random() % 8));
  for (const WeightFormat& format : affine_formats()) {
    CAPTURE(format_name(format));
    const auto error = [&](const RoundingOptions& options) {
      return weighted_error(values, rounded(values, format, options), importance);
    };
    CHECK(error({.method = GridMethod::kSearch, .importance = importance}) < error({.method = GridMethod::kSearch}));
  }
}

TEST_CASE("zeros and values far apart have finite groups near them") {
  for (const WeightFormat& format : affine_formats()) {
    for (const float large : {0.0F, 3.0F, -3.0F}) {
      CAPTURE(format_name(format));
      CAPTURE(large);
      std::vector<float> values(kAffineCols);
      values[300] = large;
      for (std::size_t c = 0; c < 16; ++c) values[c] = 1e-6F;
      for (const GridMethod method : {GridMethod::kRange, GridMethod::kSearch}) {
        const std::vector<float> read = rounded(values, format, {.method = method, .half_type = DType::kBF16});
        for (std::size_t c = 0; c < kAffineCols; ++c) {
          REQUIRE(std::isfinite(read[c]));
          CHECK(std::abs(read[c] - values[c]) <= 0.05F * std::abs(large) + 1e-6F);
        }
      }
    }
  }
}

TEST_CASE("groups of MLX do not depend on the number of threads") {
  const std::vector<float> values = lopsided_rows();
  for (const WeightFormat& format : affine_formats()) {
    CAPTURE(format_name(format));
    const auto run = [&] { return rounded(values, format, {.method = GridMethod::kSearch}); };
    CHECK(test::with_threads(1, run) == test::with_threads(3, run));
  }
}

}  // namespace
}  // namespace ballast::quant
