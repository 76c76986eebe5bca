// Rounding to the blocks of a GGUF.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "formats/blocks/ggml_blocks.h"
#include "quant/rounding/grid_finder.h"
#include "quant/rounding/grids/block_type.h"
#include "quant/rounding/rounding.h"
#include "weighted_error.h"
#include "with_threads.h"

namespace ballast::quant {
namespace {

using formats::CodeMatrix;
using test::weighted_error;

constexpr std::size_t kBlockRows = 6;
constexpr std::size_t kBlockCols = 512;

/// Values as matrices have them: many small, few large, rows of different size.
std::vector<float> bell_shaped_rows() {
  std::mt19937 random(5);
  std::vector<float> values(kBlockRows * kBlockCols);
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (int j = 0; j < 6; ++j) values[i] += 0.05F * (static_cast<float>(random() % 2001) / 1000.0F - 1.0F);
    const std::size_t row = i / kBlockCols;
    values[i] *= static_cast<float>(1 + row);
  }
  return values;
}

CodeMatrix blocks_of(const std::vector<float>& values, DType type, const RoundingOptions& options) {
  return round_to_nearest(values, values.size() / kBlockCols, kBlockCols, block_format(type), {}, 2, options);
}

/// As whoever reads the file decodes them.
std::vector<float> decoded(const CodeMatrix& tensor) {
  std::vector<float> values(tensor.rows * tensor.cols);
  const DType type = tensor.format.block_type;
  const std::size_t count = values.size() / dtype_info(type).block_elements;
  formats::decode_ggml_blocks(type, std::as_bytes(std::span(tensor.codes)).data(), count, values.data());
  return values;
}

TEST_CASE("blocks decode to what the grids promise, and codes are the nearest that a grid has") {
  const std::vector<float> values = bell_shaped_rows();
  const std::vector<std::uint8_t> all(kBlockCols, 1);
  for (const DType type : writable_block_types()) {
    for (const GridMethod method : {GridMethod::kRange, GridMethod::kSearch}) {
      CAPTURE(dtype_info(type).name);
      const std::vector<float> stored = decoded(blocks_of(values, type, {.method = method}));
      GridFinder finder(block_format(type), DType::kF16, method, {.quantized_mask = all});
      const QuantRange range(block_format(type));
      RowGrids grids;
      std::vector<std::uint8_t> codes(kBlockCols);
      std::size_t other = 0;
      std::size_t worse = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (i % kBlockCols == 0) {
          finder.find(std::span(values).subspan(i, kBlockCols), grids);
          finder.nearest_codes(grids, codes);
        }
        const QuantParams& grid = grids.groups[i % kBlockCols / block_type(type).group_size];
        const float error = std::abs(values[i] - stored[i]);
        other += stored[i] != value_of(codes[i % kBlockCols], grid) ? 1 : 0;
        if (block_type(type).is_lattice) continue;  // lattice_search_test.cc
        for (int code = range.qmin; code <= range.qmax; ++code) {
          if (range.nearest != nullptr && range.nearest->codes[2 * static_cast<std::size_t>(code)] != code) continue;
          worse += std::abs(values[i] - value_of(code, grid)) < error * (1 - 1e-5F) - 1e-7F ? 1 : 0;
        }
      }
      CHECK(other == 0);
      CHECK(worse == 0);
    }
  }
}

TEST_CASE("blocks lose what their bits allow, and searched ones less than those over the range") {
  // Root mean square errors over the values' size of searched blocks; measured plus a tenth.
  const std::map<DType, double> budgets = {
      {DType::kIQ2_XXS, 0.40}, {DType::kIQ2_XS, 0.36}, {DType::kIQ2_S, 0.32},  {DType::kIQ3_XXS, 0.20},
      {DType::kIQ3_S, 0.17},   {DType::kQ2_K, 0.32},   {DType::kQ3_K, 0.17},   {DType::kQ4_0, 0.095},
      {DType::kQ4_1, 0.085},   {DType::kQ4_K, 0.085},  {DType::kIQ4_NL, 0.09}, {DType::kIQ4_XS, 0.09},
      {DType::kMXFP4, 0.14},   {DType::kNVFP4, 0.11},  {DType::kQ5_0, 0.048},  {DType::kQ5_1, 0.042},
      {DType::kQ5_K, 0.042},   {DType::kQ6_K, 0.021},  {DType::kQ8_0, 0.006}};
  const std::vector<float> values = bell_shaped_rows();
  const std::vector<float> ones(kBlockCols, 1.0F);
  const double size = weighted_error(values, std::vector<float>(values.size()), ones);
  REQUIRE(budgets.size() == writable_block_types().size());
  for (const DType type : writable_block_types()) {
    CAPTURE(dtype_info(type).name);
    const double range = weighted_error(values, decoded(blocks_of(values, type, {})), ones);
    const double search =
        weighted_error(values, decoded(blocks_of(values, type, {.method = GridMethod::kSearch})), ones);
    CHECK(search <= range);
    CHECK(std::sqrt(search / size) <= budgets.at(type));
    CHECK(std::sqrt(search / size) >= 0.5 * budgets.at(type));
  }
}

TEST_CASE("importance moves the grids of blocks to where it is high") {
  const std::vector<float> values = bell_shaped_rows();
  std::mt19937 random(12);
  std::vector<float> importance(kBlockCols);
  for (float& value : importance) value = std::exp2(static_cast<float>(random() % 8));
  for (const DType type : writable_block_types()) {
    CAPTURE(dtype_info(type).name);
    const auto error = [&](const RoundingOptions& options) {
      return weighted_error(values, decoded(blocks_of(values, type, options)), importance);
    };
    CHECK(error({.method = GridMethod::kSearch, .importance = importance}) < error({.method = GridMethod::kSearch}));
  }
}

TEST_CASE("zeros, single values and values far apart have finite blocks near them") {
  for (const DType type : writable_block_types()) {
    for (const float large : {0.0F, 3.0F, -3.0F}) {
      CAPTURE(dtype_info(type).name);
      CAPTURE(large);
      std::vector<float> values(kBlockCols);
      values[300] = large;
      for (std::size_t c = 0; c < 16; ++c) values[c] = 1e-6F;
      for (const GridMethod method : {GridMethod::kRange, GridMethod::kSearch}) {
        const std::vector<float> stored = decoded(blocks_of(values, type, {.method = method}));
        for (std::size_t c = 0; c < kBlockCols; ++c) {
          REQUIRE(std::isfinite(stored[c]));
          // No point of a lattice is near 0 and a large value.
          if (block_type(type).is_lattice && c / 32 == 300 / 32) continue;
          CHECK(std::abs(stored[c] - values[c]) <= 0.05F * std::abs(large) + 1e-6F);
        }
      }
    }
  }
}

TEST_CASE("blocks do not depend on the number of threads") {
  const std::vector<float> values = bell_shaped_rows();
  for (const DType type : writable_block_types()) {
    CAPTURE(dtype_info(type).name);
    const auto run = [&] { return blocks_of(values, type, {.method = GridMethod::kSearch}).codes; };
    CHECK(test::with_threads(1, run) == test::with_threads(3, run));
  }
}

}  // namespace
}  // namespace ballast::quant
