// Matrices in NVFP4: 4-bit floats, an 8-bit scale for each 16 columns of a row, and one scale for the whole matrix.
#ifndef BALLAST_FORMATS_CODECS_NVFP4_H_
#define BALLAST_FORMATS_CODECS_NVFP4_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "formats/codecs/codec.h"
#include "formats/codecs/module_tensors.h"

namespace ballast::formats {

inline constexpr std::size_t kNvfp4Group = 16;  ///< columns that share a scale

/// A program's tensors of a matrix [rows, cols].
struct Nvfp4Tensors {
  std::string_view type;          ///< of StoredCodes
  std::string_view codes;         ///< U8 [rows, cols / 2], the lower half of a byte first
  std::string_view scales;        ///< F8_E4M3 [rows, cols / 16]
  std::string_view matrix_scale;  ///< F32, one value
  bool divides = false;           ///< scales are divided by the scale of the matrix; else they are multiplied by it
};

/// Checks the types and shapes of the tensors, and returns their names. Throws Error.
std::vector<std::string> check_nvfp4(const ModuleTensors& tensors, const Nvfp4Tensors& parts, std::size_t rows,
                                     std::size_t cols);

/// Returns the codes after the same check. Kernels have no scales of two such levels, so it is always decoded. Throws
/// Error, also for scales that are no numbers.
StoredCodes nvfp4_codes(const ModuleTensors& tensors, const Nvfp4Tensors& parts, std::size_t rows, std::size_t cols);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_CODECS_NVFP4_H_
