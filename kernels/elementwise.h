// What lies between the matrices: norms, rotary positions, the gated activation, the residual. All parallel over
// tokens.
#ifndef BALLAST_KERNELS_ELEMENTWISE_H_
#define BALLAST_KERNELS_ELEMENTWISE_H_

#include <cstddef>

namespace ballast::kernels {

/// dst[i] = src[i] / sqrt(mean(src[i]^2) + epsilon) * gain, for m rows of `size` floats. dst may be src.
void rms_norm(const float* src, std::size_t m, std::size_t size, const float* gain, float epsilon, float* dst);

/// Rotates the pairs (j, j + head_size/2) of every head of x [m][heads * head_size] (rows `stride` floats apart) in
/// place. cos and sin are [m][head_size / 2]: the caller looks positions up.
void rope(float* x, std::size_t m, std::size_t heads, std::size_t head_size, std::size_t stride, const float* cos,
          const float* sin);

/// dst = gate / (1 + exp(-gate)) * up over `count` values. dst may be either source.
void silu_multiply(const float* gate, const float* up, std::size_t count, float* dst);

/// dst += src over `count` values.
void add(const float* src, std::size_t count, float* dst);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_ELEMENTWISE_H_
