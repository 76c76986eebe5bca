#include "quant/rounding/grid_finder.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "formats/scale_codes.h"
#include "kernels/matrix/float_matrix.h"

namespace ballast::quant {
namespace {

constexpr std::size_t kParamCols = 300;  // the last group is short for every group size
constexpr std::size_t kParamRows = 20;

std::vector<WeightFormat> grouped_formats() {
  std::vector<WeightFormat> formats;
  for (const int bits : {4, 5, 6, 8}) {
    for (const std::size_t group_size : {32, 128}) {
      for (const bool symmetric : {true, false}) {
        for (const int scale_bits : {16, 8}) {
          formats.push_back({.bits = bits, .group_size = group_size, .symmetric = symmetric, .scale_bits = scale_bits});
        }
      }
    }
  }
  for (const Codebook& book : kCodebooks) {
    for (const std::size_t group_size : {32, 128}) {
      for (const int scale_bits : {16, 8}) formats.push_back(codebook_format(book.id, group_size, scale_bits));
    }
  }
  return formats;
}

/// Values as matrices have them: many small, few large.
std::vector<float> bell_shaped(float center) {
  std::mt19937 random(11);
  std::vector<float> values(kParamRows * kParamCols);
  for (float& value : values) {
    value = center;
    for (int i = 0; i < 6; ++i) value += 0.05F * (static_cast<float>(random() % 2001) / 1000.0F - 1.0F);
    if (random() % 50 == 0) value *= 2.5F;
  }
  return values;
}

std::vector<float> uneven_importance() {
  std::mt19937 random(12);
  std::vector<float> importance(kParamCols);
  for (float& value : importance) value = std::exp2(static_cast<float>(random() % 8));
  return importance;
}

const std::vector<std::uint8_t>& kept() {
  static const std::vector<std::uint8_t> all = [] {
    std::vector<std::uint8_t> marks(kParamCols, 1);
    marks[3] = marks[40] = 0;
    return marks;
  }();
  return all;
}

GridFinder finder_for(const WeightFormat& format, DType scale_type, GridMethod method,
                      const std::vector<float>& importance = {}) {
  return {format, scale_type, method, {.quantized_mask = kept(), .importance = importance}};
}

/// Weighted squared error of all rows.
double error_of(const std::vector<float>& values, const WeightFormat& format, GridMethod method,
                const std::vector<float>& importance, const std::vector<float>& weights) {
  GridFinder finder = finder_for(format, DType::kF16, method, importance);
  const QuantRange range(format);
  RowGrids grids;
  double error = 0;
  for (std::size_t r = 0; r < kParamRows; ++r) {
    const auto row = std::span(values).subspan(r * kParamCols, kParamCols);
    finder.find(row, grids);
    for (std::size_t c = 0; c < kParamCols; ++c) {
      if (kept()[c] == 0) continue;
      const QuantParams& grid = grids.groups[c / format.group_size];
      const double difference = double{row[c]} - double{value_of(code_of(row[c], grid, range), grid)};
      error += double{weights[c]} * difference * difference;
    }
  }
  return error;
}

TEST_CASE("searched grids have no larger error than those over the range, and at few bits a smaller one") {
  const std::vector<float> ones(kParamCols, 1.0F);
  for (const float center : {0.0F, 0.05F}) {
    const std::vector<float> values = bell_shaped(center);
    for (const WeightFormat& format : grouped_formats()) {
      CAPTURE(center);
      CAPTURE(format_name(format));
      const double range = error_of(values, format, GridMethod::kRange, {}, ones);
      const double search = error_of(values, format, GridMethod::kSearch, {}, ones);
      CHECK(search <= range);
      if (format.bits == 4) CHECK(search < 0.92 * range);
    }
  }
}

TEST_CASE("values of MXFP4 lose nothing on a searched grid of five or more symmetric bits, and something on four") {
  constexpr float kFourBits[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  std::mt19937 random(13);
  std::vector<float> values(kParamRows * kParamCols);
  float power = 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t col = i % kParamCols;
    if (col % 32 == 0) power = std::exp2(-static_cast<float>(random() % 9));
    // Blocks whose largest value is any of the eight.
    const float size = kFourBits[random() % (1 + (i / 32) % 8)];
    values[i] = (random() % 2 == 0 ? size : -size) * power;
  }
  const std::vector<float> ones(kParamCols, 1.0F);
  for (const int bits : {5, 6, 8}) {
    const WeightFormat format = {.bits = bits, .group_size = 32, .symmetric = true};
    CHECK(error_of(values, format, GridMethod::kSearch, {}, ones) == 0);
  }
  CHECK(error_of(values, {.bits = 4, .group_size = 32, .symmetric = true}, GridMethod::kSearch, {}, ones) > 0);
}

TEST_CASE("codebooks lose less than zero points, for fewer bytes") {
  const std::vector<float> values = bell_shaped(0);
  const std::vector<float> ones(kParamCols, 1.0F);
  for (const CodebookId id : {CodebookId::kNl4, CodebookId::kNl5}) {
    for (const std::size_t group_size : {std::size_t{32}, std::size_t{128}}) {
      for (const int scale_bits : {16, 8}) {
        const WeightFormat format = codebook_format(id, group_size, scale_bits);
        const WeightFormat with_zeros = {
            .bits = format.bits, .group_size = group_size, .symmetric = false, .scale_bits = scale_bits};
        CAPTURE(format_name(format));
        CHECK(error_of(values, format, GridMethod::kSearch, {}, ones) <
              error_of(values, with_zeros, GridMethod::kSearch, {}, ones));
      }
    }
  }
}

TEST_CASE("rounding normal weights in groups of 32 loses the share of their energy that docs/method.md gives") {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> row(std::size_t{1} << 16);
  double energy = 0;
  for (float& value : row) {
    value = normal(random);
    energy += double{value} * double{value};
  }
  const std::vector<std::uint8_t> all(row.size(), 1);
  for (const auto& [id, share] : {std::pair{CodebookId::kNl2, 0.0950}, std::pair{CodebookId::kNl3, 0.0229},
                                  std::pair{CodebookId::kNl4, 0.00539}, std::pair{CodebookId::kNl5, 0.00127}}) {
    const WeightFormat format = codebook_format(id, 32, 16);
    CAPTURE(format_name(format));
    GridFinder finder(format, DType::kF16, GridMethod::kSearch, {.quantized_mask = all});
    const QuantRange range(format);
    RowGrids grids;
    finder.find(row, grids);
    double error = 0;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const QuantParams& grid = grids.groups[c / 32];
      error += std::pow(double{row[c]} - double{value_of(code_of(row[c], grid, range), grid)}, 2);
    }
    CHECK(error / energy == doctest::Approx(share).epsilon(0.02));
  }
}

TEST_CASE("importance moves the grids to where it is high") {
  const std::vector<float> values = bell_shaped(0);
  const std::vector<float> importance = uneven_importance();
  for (const WeightFormat& format : grouped_formats()) {
    CAPTURE(format_name(format));
    const double weighted = error_of(values, format, GridMethod::kSearch, importance, importance);
    const double unweighted = error_of(values, format, GridMethod::kSearch, {}, importance);
    CHECK(weighted < unweighted);
  }
}

TEST_CASE("scales of 8 bits cost little accuracy") {
  const std::vector<float> ones(kParamCols, 1.0F);
  const std::vector<float> values = bell_shaped(0.02F);
  for (WeightFormat format : grouped_formats()) {
    if (format.scale_bits == 16) continue;
    // Symmetric integers cannot have negative scales of 8 bits.
    if (format.is_integer() && format.symmetric) continue;
    CAPTURE(format_name(format));
    const double of_8_bits = error_of(values, format, GridMethod::kSearch, {}, ones);
    format.scale_bits = 16;
    CHECK(of_8_bits < 1.08 * error_of(values, format, GridMethod::kSearch, {}, ones));
  }
}

TEST_CASE(
    "scales of 8 bits are what their codes and the row's scale decode to, negative where values are a table's alone") {
  const std::vector<float> values = bell_shaped(0.02F);
  for (const WeightFormat& format : grouped_formats()) {
    if (format.scale_bits == 16) continue;
    CAPTURE(format_name(format));
    for (const DType type : {DType::kF16, DType::kBF16}) {
      for (const GridMethod method : {GridMethod::kRange, GridMethod::kSearch}) {
        GridFinder finder = finder_for(format, type, method);
        RowGrids grids;
        int highest = 0;
        bool any_negative = false;
        for (std::size_t r = 0; r < kParamRows; ++r) {
          finder.find(std::span(values).subspan(r * kParamCols, kParamCols), grids);
          REQUIRE(grids.scale_codes.size() == grids.groups.size());
          std::vector<std::uint16_t> bits(grids.groups.size());
          const bool is_signed = format.codebook != CodebookId::kUniform;
          const auto codes = is_signed ? formats::ScaleCodes::kSigned : formats::ScaleCodes::kUnsigned;
          formats::decode_scales(grids.row_scale, grids.scale_codes, codes, type, bits);
          std::vector<float> scales(bits.size());
          kernels::to_float(bits.data(), type == DType::kF16 ? kernels::FloatType::kF16 : kernels::FloatType::kBF16,
                            bits.size(), scales.data());
          for (std::size_t g = 0; g < scales.size(); ++g) {
            CHECK(grids.groups[g].scale == scales[g]);
            const int code =
                is_signed ? std::abs(int{static_cast<std::int8_t>(grids.scale_codes[g])}) : int{grids.scale_codes[g]};
            if (!is_signed) CHECK(scales[g] >= 0);
            any_negative = any_negative || scales[g] < 0;
            highest = std::max(highest, is_signed ? 2 * code : code);
          }
        }
        CHECK(highest >= 253);  // the codes' range is used
        CHECK(any_negative == (format.codebook != CodebookId::kUniform));
      }
    }
  }
}

TEST_CASE("groups and rows of zeros have scale 0 and code to their zero") {
  std::vector<float> row(kParamCols, 0.0F);
  for (const WeightFormat& format : grouped_formats()) {
    CAPTURE(format_name(format));
    for (const GridMethod method : {GridMethod::kRange, GridMethod::kSearch}) {
      for (const bool all : {true, false}) {
        for (std::size_t c = 128; c < 256; ++c) row[c] = all ? 0.0F : 0.5F - static_cast<float>(c % 7);
        GridFinder finder = finder_for(format, DType::kF16, method);
        RowGrids grids;
        finder.find(row, grids);
        CHECK(grids.groups[0].scale == 0);
        CHECK(grids.groups[0].zero_point == (format.symmetric ? QuantRange(format).symmetric_zero_point : 0));
        CHECK((grids.groups[128 / format.group_size].scale == 0) == all);
      }
    }
  }
}

TEST_CASE("a group far below its row's largest, or one that no error counts in, still has a grid") {
  std::vector<float> row = bell_shaped(0);
  row.resize(kParamCols);
  for (std::size_t c = 0; c < 128; ++c) row[c] *= 1e-6F;
  std::vector<float> importance(kParamCols, 1.0F);
  for (std::size_t c = 128; c < 256; ++c) importance[c] = 0;
  for (const WeightFormat& format : grouped_formats()) {
    CAPTURE(format_name(format));
    for (const GridMethod method : {GridMethod::kRange, GridMethod::kSearch}) {
      GridFinder finder = finder_for(format, DType::kF16, method, importance);
      const QuantRange range(format);
      RowGrids grids;
      finder.find(row, grids);
      for (std::size_t c = 0; c < kParamCols; ++c) {
        const QuantParams& grid = grids.groups[c / format.group_size];
        CHECK(std::isfinite(grid.scale));
        CHECK(grid.zero_point >= 0);
        CHECK(grid.zero_point <= range.qmax);
        if (kept()[c] != 0 && c < 128) CHECK(std::abs(value_of(code_of(row[c], grid, range), grid)) <= 0.02F);
      }
    }
  }
}

}  // namespace
}  // namespace ballast::quant
