// Scores over a vocabulary: log-probabilities, divergence, argmax. One row each; callers run rows in parallel.
#ifndef BALLAST_KERNELS_LOGITS_H_
#define BALLAST_KERNELS_LOGITS_H_

#include <cstddef>

namespace ballast::kernels {

/// log(sum(exp(logits))), exponentials in F32 relative to the maximum, their sum in F64.
double log_sum_exp(const float* logits, std::size_t count);

/// KL(p || q) of the softmax distributions of two rows of logits, in nats; never negative.
double kl_divergence(const float* p_logits, const float* q_logits, std::size_t count);

/// What sum_weights sums apart: so few are walked one by one.
inline constexpr std::size_t kWeightBlock = 512;

/// weights[i] = exp((logits[i] - largest) * scale) in F32, 0 below e^-87, and the sum of every kWeightBlock of them,
/// the last of which may have fewer. Returns the sum of all. scale >= 0 is finite, no logit is above `largest`.
double sum_weights(const float* logits, std::size_t count, float largest, float scale, float* weights, double* sums);

/// Index of the largest value, the first one on a tie.
std::size_t argmax(const float* values, std::size_t count);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_LOGITS_H_
