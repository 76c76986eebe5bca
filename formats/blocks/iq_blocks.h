// Decoders of GGUF's IQ types: blocks of 256 whose codes are points of a lattice (iq_grids.h).
#ifndef BALLAST_FORMATS_BLOCKS_IQ_BLOCKS_H_
#define BALLAST_FORMATS_BLOCKS_IQ_BLOCKS_H_

#include <cstdint>

namespace ballast::formats {

/// Each function decodes one block to 256 floats.
void decode_iq1_s(const std::uint8_t* src, float* dst);
void decode_iq1_m(const std::uint8_t* src, float* dst);
void decode_iq2_xxs(const std::uint8_t* src, float* dst);
void decode_iq2_xs(const std::uint8_t* src, float* dst);
void decode_iq2_s(const std::uint8_t* src, float* dst);
void decode_iq3_xxs(const std::uint8_t* src, float* dst);
void decode_iq3_s(const std::uint8_t* src, float* dst);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_BLOCKS_IQ_BLOCKS_H_
