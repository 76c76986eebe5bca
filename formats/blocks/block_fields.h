// Fields of GGUF's blocks, little-endian and unaligned.
#ifndef BALLAST_FORMATS_BLOCKS_BLOCK_FIELDS_H_
#define BALLAST_FORMATS_BLOCKS_BLOCK_FIELDS_H_

#include <cstdint>
#include <cstring>

#include "kernels/matrix/float_matrix.h"

namespace ballast::formats {

inline std::uint16_t u16_at(const std::uint8_t* src) {
  std::uint16_t value = 0;
  std::memcpy(&value, src, sizeof(value));
  return value;
}

inline std::uint32_t u32_at(const std::uint8_t* src) {
  std::uint32_t value = 0;
  std::memcpy(&value, src, sizeof(value));
  return value;
}

/// Returns a 16-bit float.
inline float half_at(const void* src) {
  float value = 0;
  kernels::to_float(src, kernels::FloatType::kF16, 1, &value);
  return value;
}

inline float to_f(int value) {
  return static_cast<float>(value);
}

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_BLOCKS_BLOCK_FIELDS_H_
