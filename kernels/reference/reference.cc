#include "kernels/reference/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace ballast::kernels::reference {
namespace {

std::uint16_t read_16(const void* src, std::size_t index) {
  std::uint16_t bits;
  std::memcpy(&bits, static_cast<const char*>(src) + 2 * index, 2);
  return bits;
}

FloatType float_type(DType dtype) {
  return dtype == DType::kBF16 ? FloatType::kBF16 : FloatType::kF16;
}

int code_at(std::span<const std::uint8_t> codes, std::size_t count, int bits, std::size_t row, std::size_t index) {
  const std::uint8_t* begin = codes.data() + row * packed_row_bytes(count, bits);
  int code = 0;
  for (int bit = 0; bit < bits; ++bit) {
    const std::size_t at = index * static_cast<std::size_t>(bits) + static_cast<std::size_t>(bit);
    code |= ((begin[at / 8] >> (at % 8)) & 1) << bit;
  }
  return code;
}

/// Returns the number that a weight's code represents: a value of its codebook, or the code itself.
int number_at(const QuantizedView& view, std::size_t row, std::size_t col) {
  const int code = code_at(view.codes, view.cols, view.bits, row, col);
  if (view.codebook == CodebookId::kUniform) return code;
  return codebook(view.codebook).values[static_cast<std::size_t>(code)];
}

int zero_at(const QuantizedView& view, std::size_t row, std::size_t group) {
  if (view.codebook != CodebookId::kUniform) return 0;
  return view.zeros.empty() ? 1 << (view.bits - 1) : code_at(view.zeros, view.groups(), view.bits, row, group);
}

double scale_at(const QuantizedView& view, std::size_t row, std::size_t group) {
  return read_value(view.scales.data(), float_type(view.scale_type), row * view.groups() + group);
}

double outlier_at(const QuantizedView& view, std::size_t row, std::size_t j) {
  return read_value(view.outlier_weights.data(), float_type(view.outlier_type), row * view.outlier_columns.size() + j);
}

}  // namespace

float half_to_float(std::uint16_t bits, FloatType type) {
  if (type == FloatType::kBF16) return std::bit_cast<float>(std::uint32_t{bits} << 16);
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                               : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25));
}

float read_value(const void* src, FloatType type, std::size_t index) {
  if (type != FloatType::kF32) return half_to_float(read_16(src, index), type);
  float value;
  std::memcpy(&value, static_cast<const char*>(src) + 4 * index, 4);
  return value;
}

std::uint16_t float_to_half(float value, FloatType type) {
  // Non-negative finite values of either kind ascend with their bits, so the nearest one is found by them, the even one
  // on a tie.
  const std::uint16_t infinity = type == FloatType::kBF16 ? 0x7F80 : 0x7C00;
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  std::uint16_t low = 0, high = infinity;
  const auto decoded = [&](std::uint16_t bits) {
    // Rounding treats infinity as the next power of two.
    if (bits != infinity) return static_cast<double>(half_to_float(bits, type));
    return type == FloatType::kBF16 ? std::ldexp(1.0, 128) : 65536.0;
  };
  if (magnitude >= decoded(infinity)) return sign | infinity;
  while (high - low > 1) {
    const std::uint16_t middle = static_cast<std::uint16_t>((low + high) / 2);
    (decoded(middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - decoded(low);
  const double above = decoded(high) - magnitude;
  return sign | (below < above || (below == above && low % 2 == 0) ? low : high);
}

std::vector<float> decode(const FloatMatrix& matrix) {
  std::vector<float> values(matrix.rows * matrix.cols);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = read_value(matrix.data, matrix.type, i);
  return values;
}

std::vector<float> decode(const QuantizedView& view) {
  std::vector<float> values(view.rows * view.cols);
  for (std::size_t r = 0; r < view.rows; ++r) {
    for (std::size_t c = 0; c < view.cols; ++c) {
      const std::size_t group = c / view.group_size;
      const int code = number_at(view, r, c);
      values[r * view.cols + c] = static_cast<float>((code - zero_at(view, r, group)) * scale_at(view, r, group));
    }
    for (std::size_t j = 0; j < view.outlier_columns.size(); ++j) {
      const std::size_t column = static_cast<std::size_t>(view.outlier_columns[j]);
      values[r * view.cols + column] = static_cast<float>(outlier_at(view, r, j));
    }
  }
  return values;
}

void matmul(std::span<const float> wei, std::size_t rows, std::size_t cols, const float* src, std::size_t m,
            const float* bias, float* dst, std::size_t dst_stride) {
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t r = 0; r < rows; ++r) {
      double sum = bias == nullptr ? 0.0 : bias[r];
      for (std::size_t c = 0; c < cols; ++c) sum += static_cast<double>(src[i * cols + c]) * wei[r * cols + c];
      dst[i * dst_stride + r] = static_cast<float>(sum);
    }
  }
}

IntegerActivations quantize(const float* src, std::size_t m, const ActivationQuantization& format) {
  IntegerActivations result{std::vector<std::int32_t>(m * format.cols), std::vector<float>(m * format.cols)};
  const float top = format.type == ActivationType::kInt16 ? 32512.0F : 127.0F;
  const std::size_t group =
      format.type == ActivationType::kInt8 ? (format.scale_per_group ? format.group_size : format.cols)
      : format.group_size >= format.cols || format.group_size % 128 == 0 ? std::min<std::size_t>(format.group_size, 128)
                                                                         : format.group_size;
  for (std::size_t i = 0; i < m; ++i) {
    std::vector<float> row(src + i * format.cols, src + (i + 1) * format.cols);
    for (const std::int32_t column : format.outlier_columns) row[static_cast<std::size_t>(column)] = 0.0F;
    for (std::size_t begin = 0; begin < format.cols; begin += group) {
      const std::size_t end = std::min(format.cols, begin + group);
      float maximum = 0.0F;
      for (std::size_t c = begin; c < end; ++c) maximum = std::max(maximum, std::fabs(row[c]));
      for (std::size_t c = begin; c < end; ++c) {
        const float code = maximum == 0.0F ? 0.0F : std::nearbyint(row[c] * (top / maximum));
        result.codes[i * format.cols + c] = static_cast<std::int32_t>(code);
        result.scales[i * format.cols + c] = maximum / top;
      }
    }
  }
  return result;
}

void matmul(const QuantizedView& view, const IntegerActivations& activations, const float* src, std::size_t m,
            const float* bias, float* dst, std::size_t dst_stride) {
  for (std::size_t i = 0; i < m; ++i) {
    const std::int32_t* codes = activations.codes.data() + i * view.cols;
    const float* scales = activations.scales.data() + i * view.cols;
    for (std::size_t r = 0; r < view.rows; ++r) {
      double total = bias == nullptr ? 0.0 : bias[r];
      for (std::size_t c = 0; c < view.cols; ++c) {
        const std::size_t g = c / view.group_size;
        const std::int64_t code = number_at(view, r, c) - zero_at(view, r, g);
        const std::int64_t product = code * codes[c];
        total += static_cast<double>(product) * scale_at(view, r, g) * scales[c];
      }
      for (std::size_t j = 0; j < view.outlier_columns.size(); ++j) {
        total += outlier_at(view, r, j) * src[i * view.cols + static_cast<std::size_t>(view.outlier_columns[j])];
      }
      dst[i * dst_stride + r] = static_cast<float>(total);
    }
  }
}

}  // namespace ballast::kernels::reference
