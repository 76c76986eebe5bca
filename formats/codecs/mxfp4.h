// Matrices in MXFP4, as gpt-oss publishes its experts (OCP Microscaling Formats 1.0): blocks of 32 values of four bits
// that share a power of two.
#ifndef BALLAST_FORMATS_CODECS_MXFP4_H_
#define BALLAST_FORMATS_CODECS_MXFP4_H_

#include <cstddef>
#include <span>
#include <string>

namespace ballast::formats {

inline constexpr std::size_t kMxfp4BlockSize = 32;

/// `blocks` has 16 bytes for each block, value 2i in the lower half of byte i and 2i + 1 in the upper; `scales` a byte
/// for each, the exponent + 127. Writes 32 values for each block. Throws Error with `context` for a scale that is NaN.
/// Precondition: there are as many blocks as scales.
void decode_mxfp4(std::span<const std::byte> blocks, std::span<const std::byte> scales, const std::string& context,
                  float* dst);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_CODECS_MXFP4_H_
