// The table of the codebooks that weights can be rounded to. The names of formats, rounding, decoding in the kernels
// and the readers of files all use its rows.
#ifndef BALLAST_CODEBOOKS_H_
#define BALLAST_CODEBOOKS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ballast {

/// The meaning of a matrix's codes: evenly spaced values, or the values of a codebook.
enum class CodebookId : std::uint8_t { kUniform, kNl2, kNl3, kNl4, kNl5, kNl6, kNl7 };

/// Code i means values[i] times the scale of its group, which may be negative.
struct Codebook {
  CodebookId id;
  std::string_view name;                ///< prefix of the names of its formats
  int bits;                             ///< of a code: 2 to 7
  std::span<const std::int8_t> values;  ///< [2^bits], ascending, from -64 to 63
};

/// The zero point of a codebook's values as unsigned numbers of 7 bits, to which this constant is added.
inline constexpr int kCodebookZero = 64;

namespace codebook_values {

// Values of nl2 and nl3 have the smallest squared error for normally distributed weights in groups of 32 whose scale is
// searched with either sign: each group's best scale and each value's least squares alternate until both are settled
// (150,000 weights), then all multiples with integers of 6 bits are compared. The error per weight is 0.0950 and 0.0229
// of its variance. 0 among the values would cost 8 % at 2 bits and 1.5 % at 3; 7-bit integers would gain 0.1 %, and x86
// without VNNI adds twice as many products of 6 bits before it widens them.
inline constexpr std::array<std::int8_t, 4> kNl2 = {-32, -11, 5, 23};
inline constexpr std::array<std::int8_t, 8> kNl3 = {-30, -18, -10, -4, 2, 8, 15, 25};

// Values of nl4 and nl5 are closest where weights are most frequent: of all 7-bit integers, the selection with the
// smallest squared error for normally distributed weights in groups of 32 to 128.
inline constexpr std::array<std::int8_t, 16> kNl4 = {-64, -49, -39, -30, -23, -17, -11, -5,
                                                     0,   6,   12,  18,  25,  32,  41,  53};
inline constexpr std::array<std::int8_t, 32> kNl5 = {-64, -58, -50, -44, -39, -34, -30, -27, -24, -21, -18,
                                                     -15, -12, -9,  -6,  -3,  0,   3,   6,   9,   12,  15,
                                                     18,  21,  24,  27,  30,  34,  38,  43,  48,  55};

/// nl6 has steps of 1 up to this magnitude and steps of 2 above, so that kernels compute its values without a table.
inline constexpr int kNl6Bend = 22;
inline constexpr std::array<std::int8_t, 64> kNl6 = [] {
  std::array<std::int8_t, 64> values{};
  for (int i = 0; i < 64; ++i) {
    const int steps = i - 32;
    const int beyond = (steps < 0 ? -steps : steps) - kNl6Bend;
    values[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(beyond <= 0 ? steps
                                                                   : steps < 0 ? steps - beyond
                                                                               : steps + beyond);
  }
  return values;
}();

/// nl7 has all 7-bit integers.
inline constexpr std::array<std::int8_t, 128> kNl7 = [] {
  std::array<std::int8_t, 128> values{};
  for (int i = 0; i < 128; ++i) values[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(i - kCodebookZero);
  return values;
}();

}  // namespace codebook_values

/// All codebooks, in ascending order of bits.
inline constexpr std::array kCodebooks = {
    Codebook{CodebookId::kNl2, "nl2", 2, codebook_values::kNl2},
    Codebook{CodebookId::kNl3, "nl3", 3, codebook_values::kNl3},
    Codebook{CodebookId::kNl4, "nl4", 4, codebook_values::kNl4},
    Codebook{CodebookId::kNl5, "nl5", 5, codebook_values::kNl5},
    Codebook{CodebookId::kNl6, "nl6", 6, codebook_values::kNl6},
    Codebook{CodebookId::kNl7, "nl7", 7, codebook_values::kNl7},
};

/// Returns the row of a codebook. Precondition: `id` is not kUniform.
constexpr const Codebook& codebook(CodebookId id) {
  std::size_t row = 0;
  while (kCodebooks[row].id != id) ++row;
  return kCodebooks[row];
}

/// Returns the bits of the unsigned numbers that kernels multiply: the values plus 2^(bits - 1).
constexpr int value_bits(const Codebook& book) {
  return book.values.front() >= -32 && book.values.back() < 32 ? 6 : 7;
}

/// Returns the codebook with codes of `bits` bits. Precondition: there is one.
constexpr const Codebook& codebook_of_bits(int bits) {
  std::size_t row = 0;
  while (kCodebooks[row].bits != bits) ++row;
  return kCodebooks[row];
}

/// Returns the code whose value is nearest to 0: that of a weight which another number replaces.
constexpr std::size_t nearest_code_to_zero(const Codebook& book) {
  std::size_t nearest = 0;
  const auto distance = [&](std::size_t i) { return book.values[i] < 0 ? -book.values[i] : book.values[i]; };
  for (std::size_t i = 1; i < book.values.size(); ++i) {
    if (distance(i) < distance(nearest)) nearest = i;
  }
  return nearest;
}

/// Returns whether the values of a codebook are consecutive integers.
constexpr bool has_consecutive_values(const Codebook& book) {
  return book.values.back() - book.values.front() + 1 == static_cast<int>(book.values.size());
}

static_assert([] {
  for (const Codebook& book : kCodebooks) {
    if (book.values.size() != std::size_t{1} << book.bits) return false;
    if (book.values.front() < -kCodebookZero || book.values.back() >= kCodebookZero) return false;
    for (std::size_t i = 1; i < book.values.size(); ++i) {
      if (book.values[i - 1] >= book.values[i]) return false;
    }
  }
  return true;
}());

}  // namespace ballast

#endif  // BALLAST_CODEBOOKS_H_
