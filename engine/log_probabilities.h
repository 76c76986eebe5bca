// Log-probabilities of tokens by a row of logits.
#ifndef BALLAST_ENGINE_LOG_PROBABILITIES_H_
#define BALLAST_ENGINE_LOG_PROBABILITIES_H_

#include <cstddef>
#include <span>
#include <vector>

#include "ballast/generate.h"

namespace ballast::engine {

/// Returns the `count` most likely tokens in descending order; of equal ones the lower id is first.
std::vector<TokenLogprob> most_likely(std::span<const float> logits, double log_sum, std::size_t count);

/// Returns the token with its log-probability and those of the `top` most likely ones. `logits` must be finite.
GeneratedToken with_log_probabilities(int token, std::span<const float> logits, std::size_t top);

/// Returns 1 for the most likely token; of equal ones the lower id comes first.
std::size_t rank_of(int token, std::span<const float> logits);

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_LOG_PROBABILITIES_H_
