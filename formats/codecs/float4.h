// 4-bit floats, the codes of MXFP4 and NVFP4 (E2M1: a sign, two bits of exponent, one of mantissa).
#ifndef BALLAST_FORMATS_CODECS_FLOAT4_H_
#define BALLAST_FORMATS_CODECS_FLOAT4_H_

#include <array>
#include <cstddef>
#include <span>

namespace ballast::formats {

inline constexpr std::array<float, 16> kFloat4Values = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                                        -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

/// Writes two values for each byte, times `scale`: first that of the lower half, then that of the upper one.
inline void decode_float4(std::span<const std::byte> codes, float scale, float* dst) {
  for (const std::byte pair : codes) {
    *dst++ = kFloat4Values[std::to_integer<std::size_t>(pair & std::byte{0x0f})] * scale;
    *dst++ = kFloat4Values[std::to_integer<std::size_t>(pair >> 4)] * scale;
  }
}

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_CODECS_FLOAT4_H_
