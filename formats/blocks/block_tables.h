// The codebooks of 4-bit codes in GGUF's blocks.
#ifndef BALLAST_FORMATS_BLOCKS_BLOCK_TABLES_H_
#define BALLAST_FORMATS_BLOCKS_BLOCK_TABLES_H_

#include <array>
#include <cstdint>

namespace ballast::formats {

/// The codebook of IQ4_NL and IQ4_XS.
inline constexpr std::array<std::int8_t, 16> kIq4Values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                           1,    13,   25,  38,  53,  69,  89,  113};

/// The codebook of MXFP4 and NVFP4: twice the value of a 4-bit float (a sign, two bits of exponent, one of fraction).
inline constexpr std::array<std::int8_t, 16> kTwiceE2M1 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_BLOCKS_BLOCK_TABLES_H_
