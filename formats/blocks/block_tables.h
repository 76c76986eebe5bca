// The codebooks of 4-bit codes in GGUF's blocks.
#ifndef BALLAST_FORMATS_BLOCKS_BLOCK_TABLES_H_
#define BALLAST_FORMATS_BLOCKS_BLOCK_TABLES_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace ballast::formats {

/// The codebook of IQ4_NL and IQ4_XS.
inline constexpr std::array<std::int8_t, 16> kIq4Values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                           1,    13,   25,  38,  53,  69,  89,  113};

/// The codebook of MXFP4 and NVFP4: twice the value of a 4-bit float (a sign, two bits of exponent, one of fraction).
inline constexpr std::array<std::int8_t, 16> kTwiceE2M1 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// The scales of kTwiceE2M1 in MXFP4 by their code: powers of two from 2^-128 on.
inline constexpr std::array<float, 255> kMxfp4Scales = [] {
  std::array<float, 255> scales{};
  float power = 0x1p-128F;
  for (float& scale : scales) {
    scale = power;
    power += power;
  }
  return scales;
}();

/// The scales of kTwiceE2M1 in NVFP4 by the seven bits of their code: half of a float of four bits of exponent and
/// three of fraction. Code 127 is not a number.
inline constexpr std::array<float, 128> kNvfp4Scales = [] {
  std::array<float, 128> scales{};
  float power = 0x1p-10F;  // of a fraction's last bit
  for (std::size_t code = 0; code < scales.size(); ++code) {
    const std::size_t exponent = code / 8;
    if (exponent > 1 && code % 8 == 0) power += power;
    scales[code] = power * static_cast<float>(code % 8 + (exponent > 0 ? 8 : 0));
  }
  return scales;
}();
inline constexpr std::uint8_t kNvfp4NotANumber = 0x7F;  ///< which the format reads as 0

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_BLOCKS_BLOCK_TABLES_H_
