// Normalization of rows and of heads. Parallel over rows.
#ifndef BALLAST_KERNELS_NORM_H_
#define BALLAST_KERNELS_NORM_H_

#include <cstddef>

namespace ballast::kernels {

/// What a norm does after dividing: y * gain + bias.
struct NormParameters {
  const float* gain = nullptr;  ///< [size]; null: ones
  const float* bias = nullptr;  ///< [size]; null: zeros
  float epsilon = 1e-5F;        ///< added to the mean square or the variance
};

/// dst[i] = src[i] / sqrt(mean(src[i]^2) + epsilon) * gain + bias, for m rows of `size` floats. dst may be src. A bias
/// is left where a LayerNorm was turned into an RMSNorm.
void rms_norm(const float* src, std::size_t m, std::size_t size, const NormParameters& parameters, float* dst);

/// dst[i] = (src[i] - mean(src[i])) / sqrt(variance(src[i]) + epsilon) * gain + bias with the biased variance, taken
/// in a second pass. dst may be src.
void layer_norm(const float* src, std::size_t m, std::size_t size, const NormParameters& parameters, float* dst);

/// RMSNorm of every head by itself, in place: x holds m rows, `stride` floats apart, of `heads` heads side by side.
/// All heads share gain [head_size] (null: ones). Qwen3 normalizes queries and keys so.
void rms_norm_heads(float* x, std::size_t m, std::size_t heads, std::size_t head_size, std::size_t stride,
                    const float* gain, float epsilon);

/// LayerNorm of every head by itself, in place, as above, each head with gains of its own: gain is [heads][head_size].
void layer_norm_heads(float* x, std::size_t m, std::size_t heads, std::size_t head_size, std::size_t stride,
                      const float* gain, float epsilon);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_NORM_H_
