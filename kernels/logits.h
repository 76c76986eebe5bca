// Scores over a vocabulary: log-probabilities, divergence, argmax. One row each; callers run rows in parallel.
#ifndef BALLAST_KERNELS_LOGITS_H_
#define BALLAST_KERNELS_LOGITS_H_

#include <cstddef>

namespace ballast::kernels {

/// Returns log(sum(exp(logits))), with exponentials in F32 relative to the maximum and their sum in F64.
double log_sum_exp(const float* logits, std::size_t count);

/// Returns KL(p || q) of the softmax distributions of two rows of logits, in nats; never negative.
double kl_divergence(const float* p_logits, const float* q_logits, std::size_t count);

/// The number of weights that sum_weights sums separately, so that only this many are searched one by one.
inline constexpr std::size_t kWeightBlock = 512;

/// Computes weights[i] = exp((logits[i] - largest) * scale) in F32, 0 below e^-87, and the sum of every kWeightBlock of
/// them, the last of which may have fewer. Returns the sum of all. scale >= 0 is finite, no logit is above `largest`.
double sum_weights(const float* logits, std::size_t count, float largest, float scale, float* weights, double* sums);

/// Returns the index of the largest value, the first one on a tie.
std::size_t argmax(const float* values, std::size_t count);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_LOGITS_H_
