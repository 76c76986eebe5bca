// A linear's weights in the form that ballast writes to disk. docs/format.md specifies it to the byte.
#ifndef BALLAST_QUANTIZED_H_
#define BALLAST_QUANTIZED_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ballast/tensor.h"

namespace ballast {

/// Bytes of one row of `count` codes of `bits` bits (2 to 8): one string of bits, the first code lowest.
constexpr std::size_t packed_row_bytes(std::size_t count, int bits) {
  return (count * static_cast<std::size_t>(bits) + 7) / 8;
}

/// What the codes of non-linear formats stand for, in multiples of their group's scale: where weights are many, values
/// are close together. Of all tables of whole numbers in 7 bits, those of least squared error for normally distributed
/// weights in groups of 32 to 128.
inline constexpr std::array<std::int8_t, 16> kNonlinear4 = {-64, -49, -39, -30, -23, -17, -11, -5,
                                                            0,   6,   12,  18,  25,  32,  41,  53};
inline constexpr std::array<std::int8_t, 32> kNonlinear5 = {-64, -58, -50, -44, -39, -34, -30, -27, -24, -21, -18,
                                                            -15, -12, -9,  -6,  -3,  0,   3,   6,   9,   12,  15,
                                                            18,  21,  24,  27,  30,  34,  38,  43,  48,  55};

/// At 6 bits the values are counted in steps of 1, and of 2 from so many on, so that code need not look them up.
inline constexpr int kNonlinear6Bend = 22;
inline constexpr std::array<std::int8_t, 64> kNonlinear6 = [] {
  std::array<std::int8_t, 64> values{};
  for (int i = 0; i < 64; ++i) {
    const int steps = i - 32;
    const int beyond = (steps < 0 ? -steps : steps) - kNonlinear6Bend;
    values[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(beyond <= 0 ? steps
                                                                   : steps < 0 ? steps - beyond
                                                                               : steps + beyond);
  }
  return values;
}();

/// At 7 bits they are all that there are.
inline constexpr std::array<std::int8_t, 128> kNonlinear7 = [] {
  std::array<std::int8_t, 128> values{};
  for (int i = 0; i < 128; ++i) values[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(i - 64);
  return values;
}();

/// `bits`: 4 to 7.
constexpr std::span<const std::int8_t> nonlinear_values(int bits) {
  if (bits == 7) return kNonlinear7;
  if (bits == 6) return kNonlinear6;
  return bits == 4 ? std::span<const std::int8_t>(kNonlinear4) : std::span<const std::int8_t>(kNonlinear5);
}

/// What is added to them, so that they are not negative: the zero point of values as codes.
inline constexpr int kNonlinearZero = 64;

/// View of a quantized matrix [rows = outputs, cols = inputs]:
///     w[r][c] = (code[r][c] - zero[r][c / group_size]) * scale[r][c / group_size]
/// or, non-linear, nonlinear_values(bits)[code[r][c]] * scale[r][c / group_size].
/// Codes are unsigned. Symmetric matrices have no `zeros`: the zero is 2^(bits-1), which non-linear ones have, too. A
/// group whose scale is 0 is all zero. The last group of a row may be short. An outlier column's codes equal its zero
/// point, so that it decodes to 0 here; its weights are in `outlier_weights` at 16 bits.
struct QuantizedView {
  std::size_t rows = 0;
  std::size_t cols = 0;
  int bits = 8;                                   ///< 4, 5, 6, 8; non-linear 7, too
  bool nonlinear = false;                         ///< 4 to 7 bits, symmetric
  std::size_t group_size = 0;                     ///< columns that share a scale; cols for per-channel
  std::span<const std::uint8_t> codes;            ///< [rows][packed_row_bytes(cols, bits)]
  DType scale_type = DType::kF16;                 ///< kF16 or kBF16
  std::span<const std::byte> scales;              ///< [rows][groups()]
  std::span<const std::uint8_t> scale_codes;      ///< 8-bit scales: [rows][groups()], what `scales` is stored as
  std::span<const std::byte> row_scales;          ///< 8-bit scales: [rows] in scale_type
  std::span<const std::uint8_t> zeros;            ///< [rows][packed_row_bytes(groups(), bits)], empty when symmetric
  std::span<const std::int32_t> outlier_columns;  ///< ascending
  DType outlier_type = DType::kF16;               ///< kF16 or kBF16
  std::span<const std::byte> outlier_weights;     ///< [rows][outlier_columns.size()]

  std::size_t groups() const { return (cols + group_size - 1) / group_size; }
};

}  // namespace ballast

#endif  // BALLAST_QUANTIZED_H_
