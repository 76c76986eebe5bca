// Matrices of 8-bit floats with one scale for the whole matrix, for each row, or for each block of rows and columns.
#ifndef BALLAST_FORMATS_CODECS_FLOAT8_H_
#define BALLAST_FORMATS_CODECS_FLOAT8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/codecs/codec.h"
#include "formats/codecs/module_tensors.h"

namespace ballast::formats {

/// The rows and columns that share a scale.
struct ScaleBlock {
  std::size_t rows = 0;
  std::size_t cols = 0;

  bool operator==(const ScaleBlock&) const = default;
};

/// Returns the value of an E4M3 code without infinities ("fn"): a sign, 4 bits of exponent with a bias of 7, 3 bits of
/// mantissa. The two codes with all other bits set are NaN.
float float8_value(std::uint8_t code);

/// Checks the types and shapes of `weight` and of its scales, in the tensor `scale_part`: one scale, one per row or, if
/// `block` is set, one per block. Returns the names of both. Throws Error.
std::vector<std::string> check_float8(const ModuleTensors& tensors, std::string_view scale_part, std::size_t rows,
                                      std::size_t cols, const ScaleBlock* block);

/// Returns the codes of a matrix (w = value * scale), which must have passed check_float8(). Kernels cannot multiply
/// these codes, so it is always decoded.
StoredCodes float8_codes(const std::string& type, const ModuleTensors& tensors, std::string_view scale_part,
                         std::size_t rows, std::size_t cols, const ScaleBlock* block);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_CODECS_FLOAT8_H_
