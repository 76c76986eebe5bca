// Rotary positions. Parallel over tokens.
#ifndef BALLAST_KERNELS_ROPE_H_
#define BALLAST_KERNELS_ROPE_H_

#include <cstddef>

namespace ballast::kernels {

/// Rotates, in place, the pairs (j, j + rotary_size/2) of the first `rotary_size` (even) values of every head. x points
/// at the first head's first rotated value; heads are `head_stride` floats apart, the m rows `row_stride`. cos and sin
/// are [m][rotary_size / 2], which the caller looks up by position.
void rope(float* x, std::size_t m, std::size_t heads, std::size_t head_stride, std::size_t rotary_size,
          std::size_t row_stride, const float* cos, const float* sin);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_ROPE_H_
