// Matrices in MXFP4 (OCP Microscaling Formats 1.0), the format of gpt-oss's experts: blocks of 32 4-bit values that
// share a power of two.
#ifndef BALLAST_FORMATS_CODECS_MXFP4_H_
#define BALLAST_FORMATS_CODECS_MXFP4_H_

#include <cstddef>
#include <span>
#include <string>

namespace ballast::formats {

inline constexpr std::size_t kMxfp4BlockSize = 32;

/// Writes 32 values for each block. `blocks` has 16 bytes for each block, with value 2i in the lower half of byte i and
/// 2i + 1 in the upper; `scales` has one byte for each, the exponent + 127. Throws Error with `context` if a scale is
/// NaN. Precondition: there are as many blocks as scales.
void decode_mxfp4(std::span<const std::byte> blocks, std::span<const std::byte> scales, const std::string& context,
                  float* dst);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_CODECS_MXFP4_H_
