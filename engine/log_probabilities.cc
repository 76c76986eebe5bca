#include "engine/log_probabilities.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "kernels/logits.h"

namespace ballast::engine {

std::vector<TokenLogprob> most_likely(std::span<const float> logits, double log_sum, std::size_t count) {
  std::vector<TokenLogprob> top;
  if (count == 0) return top;
  if (count == 1 && !logits.empty()) {
    const std::size_t best = kernels::argmax(logits.data(), logits.size());
    return {{static_cast<int>(best), double{logits[best]} - log_sum}};
  }
  // A single pass is fast: few tokens are more likely than the least likely one of the list.
  float least = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (top.size() == count && logits[i] <= least) continue;
    const TokenLogprob token = {static_cast<int>(i), double{logits[i]} - log_sum};
    if (top.size() == count) top.pop_back();
    top.insert(std::ranges::upper_bound(top, token.logprob, std::greater<>(), &TokenLogprob::logprob), token);
    if (top.size() == count) least = logits[static_cast<std::size_t>(top.back().id)];
  }
  return top;
}

GeneratedToken with_log_probabilities(int token, std::span<const float> logits, std::size_t top) {
  const double log_sum = kernels::log_sum_exp(logits.data(), logits.size());
  return {.id = token,
          .logprob = double{logits[static_cast<std::size_t>(token)]} - log_sum,
          .top = most_likely(logits, log_sum, top)};
}

std::size_t rank_of(int token, std::span<const float> logits) {
  const auto index = static_cast<std::size_t>(token);
  const float own = logits[index];
  const auto before = std::ranges::count_if(logits.first(index), [&](float logit) { return logit >= own; });
  const auto after = std::ranges::count_if(logits.subspan(index), [&](float logit) { return logit > own; });
  return static_cast<std::size_t>(1 + before + after);
}

}  // namespace ballast::engine
