// Single values in 16 bits, as scales are stored.
#ifndef BALLAST_QUANT_ROUNDING_GRIDS_HALF_FLOAT_H_
#define BALLAST_QUANT_ROUNDING_GRIDS_HALF_FLOAT_H_

#include <cstdint>

#include "ballast/tensor.h"
#include "formats/scale_codes.h"
#include "kernels/matrix/float_matrix.h"

namespace ballast::quant {

/// `type`: kF16 or kBF16. Ties round to even.
inline std::uint16_t half_bits(float value, DType type) {
  std::uint16_t bits = 0;
  kernels::from_float(&value, 1, formats::scale_float_type(type), &bits);
  return bits;
}

inline float from_half(std::uint16_t bits, DType type) {
  float value = 0;
  kernels::to_float(&bits, formats::scale_float_type(type), 1, &value);
  return value;
}

/// Returns the value as it will be read back.
inline float as_half(float value, DType type) {
  return from_half(half_bits(value, type), type);
}

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_GRIDS_HALF_FLOAT_H_
