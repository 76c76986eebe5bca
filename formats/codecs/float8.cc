#include "formats/codecs/float8.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "formats/codecs/code_words.h"

namespace ballast::formats {

namespace {

struct Float8Parts {
  TensorView codes;
  TensorView scales;
  ScaleBlock block;
};

Float8Parts float8_parts(const ModuleTensors& tensors, std::string_view scale_part, std::size_t rows, std::size_t cols,
                         const ScaleBlock* block) {
  Float8Parts parts;
  parts.codes = tensors.get("weight", {DType::kF8_E4M3}, {rows, cols});
  parts.scales = tensors.get(scale_part, {DType::kF16, DType::kBF16, DType::kF32});
  if (block != nullptr) {
    parts.block = *block;
    parts.scales =
        tensors.get_floats(scale_part, {round_up_division(rows, block->rows), round_up_division(cols, block->cols)});
    return parts;
  }
  const auto count = static_cast<std::size_t>(element_count(parts.scales.shape));
  const bool of_rows = axis_size(parts.scales, 0) == rows && count == rows && parts.scales.shape.size() <= 2;
  if (count != 1 && !of_rows) {
    tensors.fail(scale_part, "has shape " + shape_string(parts.scales.shape) +
                                 ", expected one value or one for each of " + std::to_string(rows) + " rows");
  }
  parts.block = {.rows = of_rows ? 1 : rows, .cols = cols};
  return parts;
}

std::array<float, 256> float8_table() {
  std::array<float, 256> table{};
  for (std::size_t code = 0; code < table.size(); ++code) table[code] = float8_value(static_cast<std::uint8_t>(code));
  return table;
}

}  // namespace

float float8_value(std::uint8_t code) {
  constexpr int kBias = 7;
  constexpr int kMantissaBits = 3;
  const int exponent = (code >> kMantissaBits) & 15;
  const int mantissa = code & 7;
  const float sign = (code & 128U) != 0 ? -1.0F : 1.0F;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  const bool subnormal = exponent == 0;
  const int significand = subnormal ? mantissa : mantissa + (1 << kMantissaBits);
  return sign * std::ldexp(static_cast<float>(significand), (subnormal ? 1 : exponent) - kBias - kMantissaBits);
}

std::vector<std::string> check_float8(const ModuleTensors& tensors, std::string_view scale_part, std::size_t rows,
                                      std::size_t cols, const ScaleBlock* block) {
  float8_parts(tensors, scale_part, rows, cols, block);
  return {tensors.name("weight"), tensors.name(scale_part)};
}

StoredCodes float8_codes(const std::string& type, const ModuleTensors& tensors, std::string_view scale_part,
                         std::size_t rows, std::size_t cols, const ScaleBlock* block) {
  const Float8Parts parts = float8_parts(tensors, scale_part, rows, cols, block);
  auto scales = std::make_shared<const std::vector<float>>(tensors.floats(scale_part, parts.scales));
  StoredCodes codes;
  codes.type = type;
  codes.decode_row = [bytes = parts.codes.bytes, scales = std::move(scales), shared = parts.block, cols](
                         std::size_t row, float* dst) {
    static const std::array<float, 256> kValues = float8_table();
    const float* row_scales = scales->data() + row / shared.rows * round_up_division(cols, shared.cols);
    const std::byte* row_codes = bytes.data() + row * cols;
    for (std::size_t c = 0; c < cols; ++c) {
      dst[c] = kValues[std::to_integer<std::size_t>(row_codes[c])] * row_scales[c / shared.cols];
    }
  };
  return codes;
}

}  // namespace ballast::formats
