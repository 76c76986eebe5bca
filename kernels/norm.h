// Normalization of rows and of heads. Parallel over rows.
#ifndef BALLAST_KERNELS_NORM_H_
#define BALLAST_KERNELS_NORM_H_

#include <cstddef>

namespace ballast::kernels {

/// The operations of a norm after dividing: y * gain + bias.
struct NormParameters {
  const float* gain = nullptr;  ///< [size]; null: ones
  const float* bias = nullptr;  ///< [size]; null: zeros
  float epsilon = 1e-5F;        ///< added to the mean square or the variance
};

/// Computes dst[i] = src[i] / sqrt(mean(src[i]^2) + epsilon) * gain + bias for m rows of `size` floats. dst may be src.
/// An RMSNorm has a bias if it was converted from a LayerNorm.
void rms_norm(const float* src, std::size_t m, std::size_t size, const NormParameters& parameters, float* dst);

/// Computes dst[i] = (src[i] - mean(src[i])) / sqrt(variance(src[i]) + epsilon) * gain + bias with the biased variance,
/// in a second pass. dst may be src.
void layer_norm(const float* src, std::size_t m, std::size_t size, const NormParameters& parameters, float* dst);

/// Computes RMSNorm of every head separately, in place: x holds m rows, `stride` floats apart, of `heads` adjacent
/// heads. All heads share gain [head_size] (null: ones), as for Qwen3's queries and keys.
void rms_norm_heads(float* x, std::size_t m, std::size_t heads, std::size_t head_size, std::size_t stride,
                    const float* gain, float epsilon);

/// Computes LayerNorm of every head separately, in place, as above; each head has its own gains: gain is
/// [heads][head_size].
void layer_norm_heads(float* x, std::size_t m, std::size_t heads, std::size_t head_size, std::size_t stride,
                      const float* gain, float epsilon);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_NORM_H_
