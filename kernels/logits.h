// Scores over a vocabulary: log-probabilities, divergence, argmax. One row each; callers run rows in parallel.
#ifndef BALLAST_KERNELS_LOGITS_H_
#define BALLAST_KERNELS_LOGITS_H_

#include <cstddef>

namespace ballast::kernels {

/// log(sum(exp(logits))), exponentials in F32 relative to the maximum, their sum in F64.
double log_sum_exp(const float* logits, std::size_t count);

/// KL(p || q) of the softmax distributions of two rows of logits, in nats; never negative.
double kl_divergence(const float* p_logits, const float* q_logits, std::size_t count);

/// Index of the largest value, the first one on a tie.
std::size_t argmax(const float* values, std::size_t count);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_LOGITS_H_
