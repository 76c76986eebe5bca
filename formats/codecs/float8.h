// Matrices of 8-bit floats with scales: of the whole matrix, of each row, or of each block of rows and columns.
#ifndef BALLAST_FORMATS_CODECS_FLOAT8_H_
#define BALLAST_FORMATS_CODECS_FLOAT8_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "formats/codecs/codec.h"
#include "formats/codecs/module_tensors.h"

namespace ballast::formats {

/// Rows and columns that share a scale.
struct ScaleBlock {
  std::size_t rows = 0;
  std::size_t cols = 0;

  bool operator==(const ScaleBlock&) const = default;
};

/// An E4M3 value without infinities ("fn"): a sign, 4 bits of exponent with a bias of 7, 3 of mantissa. Both codes with
/// all other bits set are NaN.
float float8_value(std::uint8_t code);

/// Checks types and shapes of `weight` and its scales, in the tensor `scale_part`: one value, one for each row or,
/// where there is a block, one for each of these. Throws Error.
void check_float8(const ModuleTensors& tensors, std::string_view scale_part, std::size_t rows, std::size_t cols,
                  const ScaleBlock* block);

/// The matrix after that check: w = value * scale. Kernels do not multiply such codes, it is always decoded.
CodecMatrix float8_matrix(const ModuleTensors& tensors, std::string_view scale_part, std::size_t rows, std::size_t cols,
                          const ScaleBlock* block);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_CODECS_FLOAT8_H_
