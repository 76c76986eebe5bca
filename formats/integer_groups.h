// Integers in groups of columns that share a scale, as GPTQ, AWQ, MLX and compressed-tensors have them.
#ifndef BALLAST_FORMATS_INTEGER_GROUPS_H_
#define BALLAST_FORMATS_INTEGER_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "formats/stored_codes.h"

namespace ballast::formats {

/// The contents of a matrix: w[r][c] = (code - zero) * scale + offset, with the zero, scale and offset of the group of
/// column c. It is a type of its own beside the kernels' CodeLayout, because that describes the few layouts that
/// kernels multiply, while this holds the parameters of all groups in every form that these programs store. Only
/// stored_codes() converts one to the other.
struct IntegerGroups {
  std::size_t rows = 0;
  std::size_t cols = 0;
  int bits = 4;                            ///< 2 to 8; codes are below 2^bits
  std::size_t group_size = 0;              ///< columns; cols for one group per row
  std::vector<std::int32_t> column_group;  ///< [cols] if it is not column / group_size, else empty
  std::vector<float> scales;               ///< [rows][groups()], finite
  std::vector<std::uint8_t> zeros;         ///< [rows][groups()]; empty: 2^(bits-1), or 0 if there are offsets
  std::vector<float> offsets;              ///< [rows][groups()], finite, or empty
  std::function<void(std::size_t row, std::uint8_t* codes)> read_codes;  ///< writes [cols], from several threads

  std::size_t groups() const { return (cols + group_size - 1) / group_size; }
};

/// Returns a matrix as codes; `program` begins the name of its type. Kernels read 4, 5, 6 or 8 bits and 16-bit scales.
/// The matrix has no layout there, and is decoded, if scales or offsets fit in neither F16 nor BF16, if codes of 7 or 8
/// bits have offsets other than those of symmetric codes, or if groups have fewer than 32 columns or different sizes.
StoredCodes stored_codes(std::string_view program, IntegerGroups groups);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_INTEGER_GROUPS_H_
