#include "quant/rounding/rounding.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "formats/codecs/ballast.h"
#include "kernels/matrix/float_matrix.h"
#include "kernels/matrix/quantized_matrix.h"
#include "with_threads.h"

namespace ballast::quant {
namespace {

using formats::CodeMatrix;

constexpr std::size_t kMatrixRows = 5;
constexpr std::size_t kMatrixCols = 150;  // the last group is short for every group size

std::vector<float> random_values(std::size_t count, float center, float spread) {
  std::mt19937 random(7);
  std::vector<float> values(count);
  for (float& value : values) value = center + spread * (static_cast<float>(random() % 20001) / 10000.0F - 1.0F);
  return values;
}

float largest_of(const std::vector<float>& values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

std::vector<WeightFormat> own_formats() {
  std::vector<WeightFormat> formats;
  for (const int bits : {4, 5, 6, 8}) {
    for (const std::size_t group_size : {0, 32, 64, 128}) {
      for (const bool symmetric : {true, false}) {
        formats.push_back({.bits = bits, .group_size = group_size, .symmetric = symmetric});
        if (group_size == 0) continue;
        formats.push_back({.bits = bits, .group_size = group_size, .symmetric = symmetric, .scale_bits = 8});
      }
    }
  }
  std::ranges::copy(codebook_formats(), std::back_inserter(formats));
  return formats;
}

float sixteen_bit(const std::vector<std::uint16_t>& stored, DType type, std::size_t at) {
  float value = 0;
  kernels::to_float(&stored[at], type == DType::kF16 ? kernels::FloatType::kF16 : kernels::FloatType::kBF16, 1, &value);
  return value;
}

int unpacked(const std::vector<std::uint8_t>& packed, int bits, std::size_t row_bytes, std::size_t row,
             std::size_t at) {
  int code = 0;
  for (std::size_t bit = 0; bit < static_cast<std::size_t>(bits); ++bit) {
    const std::size_t context = at * static_cast<std::size_t>(bits) + bit;
    code |= (packed[row * row_bytes + context / 8] >> (context % 8) & 1) << bit;
  }
  return code;
}

CodeMatrix integers_of(const std::vector<float>& values, std::size_t rows, std::size_t cols, const WeightFormat& format,
                       const std::vector<std::int32_t>& outlier_columns, float absmax,
                       const RoundingOptions& options = {}) {
  return round_to_nearest(values, rows, cols, format, outlier_columns, absmax, options);
}

/// One weight as docs/format.md defines it.
struct Decoded {
  int code = 0;
  int zero = 0;
  float scale = 0;
  std::span<const std::int8_t> table;  ///< of a codebook
  float value() const {
    return static_cast<float>(table.empty() ? code - zero : table[static_cast<std::size_t>(code)]) * scale;
  }
};

Decoded decode(const CodeMatrix& tensor, std::size_t row, std::size_t col) {
  const std::size_t groups = tensor.groups();
  const std::size_t group = col / tensor.group_size();
  Decoded decoded;
  decoded.code =
      unpacked(tensor.codes, tensor.format.bits, packed_row_bytes(tensor.cols, tensor.format.bits), row, col);
  decoded.zero = tensor.zeros.empty() ? 1 << (tensor.format.bits - 1)
                                      : unpacked(tensor.zeros, tensor.format.bits,
                                                 packed_row_bytes(groups, tensor.format.bits), row, group);
  decoded.scale = sixteen_bit(tensor.scales, tensor.scale_type, row * groups + group);
  if (tensor.format.codebook != CodebookId::kUniform) decoded.table = codebook(tensor.format.codebook).values;
  return decoded;
}

TEST_CASE("every code is the nearest that its grid has") {
  for (const float center : {0.0F, 0.3F}) {
    const std::vector<float> values = random_values(kMatrixRows * kMatrixCols, center, 1);
    for (const WeightFormat& format : own_formats()) {
      CAPTURE(format_name(format));
      const CodeMatrix tensor = integers_of(values, kMatrixRows, kMatrixCols, format, {}, largest_of(values));
      const int lowest = format.bits == 8 && format.symmetric ? 1 : 0;
      std::size_t worse = 0;
      for (std::size_t r = 0; r < kMatrixRows; ++r) {
        for (std::size_t c = 0; c < kMatrixCols; ++c) {
          Decoded decoded = decode(tensor, r, c);
          const float value = values[r * kMatrixCols + c];
          const float error = std::abs(decoded.value() - value);
          for (decoded.code = lowest; decoded.code < 1 << format.bits; ++decoded.code) {
            if (std::abs(decoded.value() - value) < error * (1 - 1e-5F)) ++worse;
          }
        }
      }
      CHECK(worse == 0);
    }
  }
}

TEST_CASE("codes are within half a step where the grid spans the values") {
  const std::vector<float> values = random_values(kMatrixRows * kMatrixCols, 0.1F, 1);
  for (const WeightFormat& format : own_formats()) {
    if (format.codebook != CodebookId::kUniform) continue;  // has steps of many sizes
    if (format.bits == 4 && format.symmetric) continue;     // may cut the smaller side for a finer step
    CAPTURE(format_name(format));
    const CodeMatrix tensor = integers_of(values, kMatrixRows, kMatrixCols, format, {}, largest_of(values));
    float most_steps = 0;
    for (std::size_t r = 0; r < kMatrixRows; ++r) {
      for (std::size_t c = 0; c < kMatrixCols; ++c) {
        const Decoded decoded = decode(tensor, r, c);
        most_steps = std::max(most_steps, std::abs(decoded.value() - values[r * kMatrixCols + c]) / decoded.scale);
      }
    }
    // A scale is rounded to F16, which shifts the end of a grid of 255 steps by up to 255 / 2048 of a step.
    CHECK(most_steps <= 0.5F + static_cast<float>(1 << format.bits) / 2048);
  }
}

TEST_CASE("four symmetric bits cut at most one step") {
  const std::vector<float> values = random_values(kMatrixRows * kMatrixCols, 0, 1);
  const CodeMatrix tensor =
      integers_of(values, kMatrixRows, kMatrixCols, {.bits = 4, .group_size = 32, .symmetric = true}, {}, 1);
  for (std::size_t r = 0; r < kMatrixRows; ++r) {
    for (std::size_t c = 0; c < kMatrixCols; ++c) {
      const Decoded decoded = decode(tensor, r, c);
      CHECK(std::abs(decoded.value() - values[r * kMatrixCols + c]) <= std::abs(decoded.scale) * 1.01F);
    }
  }
}

TEST_CASE("symmetric INT8 stays in -127 to 127 and reaches both ends") {
  std::vector<float> values = random_values(kMatrixRows * kMatrixCols, 0, 1);
  values[0] = -1.5F;
  values[kMatrixCols] = 1.5F;
  const CodeMatrix tensor = integers_of(values, kMatrixRows, kMatrixCols, {.bits = 8, .group_size = 64}, {}, 1.5F);
  CHECK(std::ranges::min(tensor.codes) == 128 - 127);
  CHECK(std::ranges::max(tensor.codes) == 128 + 127);
  CHECK(decode(tensor, 0, 0).code == 1);
  CHECK(decode(tensor, 1, 0).code == 255);
}

TEST_CASE("a group of zeros has scale 0 and decodes to zeros") {
  std::vector<float> values = random_values(kMatrixRows * kMatrixCols, 0, 1);
  for (std::size_t c = 32; c < 64; ++c) values[2 * kMatrixCols + c] = 0;
  for (const bool symmetric : {true, false}) {
    for (const int bits : {4, 5, 6, 8}) {
      const CodeMatrix tensor = integers_of(values, kMatrixRows, kMatrixCols,
                                            {.bits = bits, .group_size = 32, .symmetric = symmetric}, {}, 1);
      for (std::size_t c = 32; c < 64; ++c) {
        CHECK(decode(tensor, 2, c).scale == 0);
        CHECK(decode(tensor, 2, c).code == decode(tensor, 2, c).zero);
      }
      CHECK(decode(tensor, 2, 64).scale != 0);
    }
  }
}

TEST_CASE("zero is a value of every asymmetric grid, also of one whose values all have one sign") {
  for (const float center : {5.0F, -5.0F}) {
    const std::vector<float> values = random_values(kMatrixRows * kMatrixCols, center, 1);
    for (const int bits : {4, 5, 6, 8}) {
      const CodeMatrix tensor =
          integers_of(values, kMatrixRows, kMatrixCols, {.bits = bits, .group_size = 32, .symmetric = false}, {},
                      largest_of(values));
      const int top = (1 << bits) - 1;
      for (std::size_t r = 0; r < kMatrixRows; ++r) {
        for (std::size_t c = 0; c < kMatrixCols; ++c) {
          const Decoded decoded = decode(tensor, r, c);
          CHECK(decoded.zero == (center > 0 ? 0 : top));
          CHECK(std::abs(decoded.value() - values[r * kMatrixCols + c]) <= 0.63F * decoded.scale);
        }
      }
    }
  }
}

TEST_CASE("ties round to even") {
  // Scale 1: the extreme value is 127.
  const std::vector<float> values = {127, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F, 3.5F};
  const CodeMatrix tensor = integers_of(values, 1, 8, {.bits = 8, .group_size = 0}, {}, 127);
  const std::vector<float> expected = {127, 0, 2, 2, 0, -2, -2, 4};
  for (std::size_t c = 0; c < expected.size(); ++c) CHECK(decode(tensor, 0, c).value() == expected[c]);
}

TEST_CASE("outlier columns decode to exactly their 16-bit weights and widen no grid") {
  std::vector<float> values = random_values(kMatrixRows * kMatrixCols, 0, 1);
  const std::vector<std::int32_t> columns = {0, 31, 32, 149};
  for (std::size_t r = 0; r < kMatrixRows; ++r) {
    for (const std::int32_t column : columns) values[r * kMatrixCols + static_cast<std::size_t>(column)] *= 1000;
  }
  for (const WeightFormat& format : own_formats()) {
    CAPTURE(format_name(format));
    const CodeMatrix tensor = integers_of(values, kMatrixRows, kMatrixCols, format, columns, largest_of(values));
    const kernels::QuantizedMatrix matrix(tensor.view());
    std::vector<float> row(kMatrixCols);
    for (std::size_t r = 0; r < kMatrixRows; ++r) {
      matrix.decode_row(r, row.data());
      for (std::size_t j = 0; j < columns.size(); ++j) {
        const auto c = static_cast<std::size_t>(columns[j]);
        const float stored = sixteen_bit(tensor.outlier_weights, tensor.outlier_type, r * columns.size() + j);
        CHECK(row[c] == stored);
        CHECK(std::abs(stored - values[r * kMatrixCols + c]) <= std::abs(values[r * kMatrixCols + c]) / 2048);
        const Decoded code = decode(tensor, r, c);
        if (format.codebook == CodebookId::kUniform) {
          CHECK(code.value() == 0);
        } else {
          CHECK(static_cast<std::size_t>(code.code) == nearest_code_to_zero(codebook(format.codebook)));
        }
      }
      for (std::size_t c = 0; c < kMatrixCols; ++c) {
        CHECK(std::abs(decode(tensor, r, c).scale) <= 2.01F / 7);
        if (std::ranges::find(columns, static_cast<std::int32_t>(c)) != columns.end()) continue;
        CHECK(decode(tensor, r, c).value() == row[c]);
      }
    }
  }
}

TEST_CASE("all decoders of a matrix agree with the values of its codes") {
  const std::vector<float> values = random_values(kMatrixRows * kMatrixCols, 0.1F, 1);
  for (const WeightFormat& format : own_formats()) {
    CAPTURE(format_name(format));
    const CodeMatrix tensor = integers_of(values, kMatrixRows, kMatrixCols, format, {7}, 1.2F);
    const std::vector<float> all = tensor.decoded();
    const kernels::QuantizedMatrix matrix(tensor.view());
    std::vector<float> row(kMatrixCols);
    for (std::size_t r = 0; r < kMatrixRows; ++r) {
      matrix.decode_row(r, row.data());
      CHECK(std::ranges::equal(row, std::span(all).subspan(r * kMatrixCols, kMatrixCols)));
    }
  }
}

TEST_CASE("16-bit values are BF16 where F16 would overflow or lose digits") {
  CHECK(half_type_for(1) == DType::kF16);
  CHECK(half_type_for(0) == DType::kF16);
  CHECK(half_type_for(59000) == DType::kF16);
  CHECK(half_type_for(65504) == DType::kBF16);
  CHECK(half_type_for(290000) == DType::kBF16);
  CHECK(half_type_for(1e-5F) == DType::kBF16);
  for (const float size : {290000.0F, 1e-7F}) {
    std::vector<float> values = random_values(kMatrixRows * kMatrixCols, 0, size);
    const std::vector<std::int32_t> columns = {3};
    const CodeMatrix tensor =
        integers_of(values, kMatrixRows, kMatrixCols, {.bits = 8, .group_size = 32}, columns, size);
    CHECK(tensor.scale_type == DType::kBF16);
    CHECK(tensor.outlier_type == DType::kBF16);
    for (std::size_t c = 4; c < kMatrixCols; ++c) {
      // BF16 keeps 8 bits of a scale, which shifts the end of the grid by up to a quarter of a step.
      CHECK(std::abs(decode(tensor, 0, c).value() - values[c]) <= 0.76F * decode(tensor, 0, c).scale);
    }
    CHECK(sixteen_bit(tensor.outlier_weights, DType::kBF16, 0) == doctest::Approx(values[3]).epsilon(1.0 / 256));
  }
}

TEST_CASE("the result does not depend on the number of threads") {
  const std::vector<float> values = random_values(kMatrixRows * kMatrixCols, 0.2F, 1);
  const std::vector<std::int32_t> columns = {7, 100};
  for (const WeightFormat& format : own_formats()) {
    for (const GridMethod method : {GridMethod::kRange, GridMethod::kSearch}) {
      const auto run = [&] {
        return integers_of(values, kMatrixRows, kMatrixCols, format, columns, 1.2F, {.method = method});
      };
      const CodeMatrix one = test::with_threads(1, run);
      const CodeMatrix three = test::with_threads(3, run);
      CHECK(one.codes == three.codes);
      CHECK(one.scales == three.scales);
      CHECK(one.scale_codes == three.scale_codes);
      CHECK(one.row_scales == three.row_scales);
      CHECK(one.zeros == three.zeros);
      CHECK(one.outlier_weights == three.outlier_weights);
    }
  }
}

TEST_CASE("a plan has the sizes and types of the result") {
  const std::vector<float> values = random_values(kMatrixRows * kMatrixCols, 0, 1e-7F);
  const std::vector<std::int32_t> columns = {1, 2, 3};
  for (const WeightFormat& format : own_formats()) {
    for (const auto& outliers : {columns, {}}) {
      const CodeMatrix result = integers_of(values, kMatrixRows, kMatrixCols, format, outliers, 1e-7F);
      const auto planned = formats::quantized_plans("m", {.rows = kMatrixRows,
                                                          .cols = kMatrixCols,
                                                          .format = format,
                                                          .outlier_columns = outliers.size(),
                                                          .scale_type = half_type_for(1e-7F),
                                                          .outlier_type = half_type_for(1e-7F)});
      const auto written = formats::quantized_parts("m", result.view());
      REQUIRE(planned.size() == written.size());
      for (std::size_t i = 0; i < planned.size(); ++i) {
        CHECK(planned[i].name == written[i].plan.name);
        CHECK(planned[i].dtype == written[i].plan.dtype);
        CHECK(planned[i].shape == written[i].plan.shape);
        CHECK(files::planned_bytes(planned[i]) == written[i].bytes.size());
      }
    }
  }
}

TEST_CASE("scales of 8 bits take a byte for each group and two for each row") {
  const auto scale_bytes = [](int scale_bits) {
    std::size_t bytes = 0;
    for (const files::TensorPlan& plan : formats::quantized_plans(
             "m", {.rows = kMatrixRows,
                   .cols = kMatrixCols,
                   .format = {.bits = 4, .group_size = 32, .symmetric = true, .scale_bits = scale_bits}})) {
      if (plan.name.ends_with("scale")) bytes += files::planned_bytes(plan);
    }
    return bytes;
  };
  CHECK(scale_bytes(16) == kMatrixRows * 5 * 2);
  CHECK(scale_bytes(8) == kMatrixRows * (5 + 2));
}

}  // namespace
}  // namespace ballast::quant
