#include "engine/log_probabilities.h"

#include <algorithm>

#include "kernels/logits.h"

namespace ballast::engine {

std::vector<TokenLogprob> most_likely(std::span<const float> logits, double log_sum, std::size_t count) {
  std::vector<TokenLogprob> top(std::min(count, logits.size()));
  std::vector<int> ids(logits.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i);
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(top.size());
  std::ranges::partial_sort(ids, end, [&](int a, int b) {
    const float x = logits[static_cast<std::size_t>(a)];
    const float y = logits[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  });
  for (std::size_t i = 0; i < top.size(); ++i) {
    top[i] = {ids[i], double{logits[static_cast<std::size_t>(ids[i])]} - log_sum};
  }
  return top;
}

GeneratedToken with_log_probabilities(int token, std::span<const float> logits, std::size_t top) {
  const double log_sum = kernels::log_sum_exp(logits.data(), logits.size());
  return {.id = token,
          .logprob = double{logits[static_cast<std::size_t>(token)]} - log_sum,
          .top = most_likely(logits, log_sum, top)};
}

}  // namespace ballast::engine
