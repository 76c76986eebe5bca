#include "engine/log_probabilities.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace ballast::engine {
namespace {

TEST_CASE("the most likely tokens are those that sorting gives, of equal ones the lower ids") {
  std::mt19937 random(4);
  for (int round = 0; round < 50; ++round) {
    std::vector<float> logits(1 + random() % 300);
    for (float& logit : logits) logit = static_cast<float>(random() % 20) / 4 - 2;
    std::vector<int> ids(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    std::ranges::stable_sort(
        ids, [&](int a, int b) { return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)]; });
    for (const std::size_t count : {0, 1, 2, 5, 20, 1000}) {
      const std::vector<TokenLogprob> top = most_likely(logits, 1.5, count);
      REQUIRE(top.size() == std::min(count, logits.size()));
      for (std::size_t i = 0; i < top.size(); ++i) {
        CHECK(top[i].id == ids[i]);
        CHECK(top[i].logprob == double{logits[static_cast<std::size_t>(ids[i])]} - 1.5);
      }
    }
  }
}

TEST_CASE("a token's log-probability is the same number in the list and by itself") {
  const std::vector<float> logits{0.3F, 2.7F, -1};
  const GeneratedToken token = with_log_probabilities(1, logits, 2);
  CHECK(token.logprob == token.top[0].logprob);
  CHECK(std::exp(token.logprob) == doctest::Approx(std::exp(2.7) / (std::exp(0.3) + std::exp(2.7) + std::exp(-1.0))));
}

TEST_CASE("a token's rank is its place among the most likely ones, of equal ones the lower id first") {
  const std::vector<float> logits{1, 5, 5, -3, 9};
  const std::vector<TokenLogprob> top = most_likely(logits, 0, logits.size());
  for (std::size_t i = 0; i < top.size(); ++i) CHECK(rank_of(top[i].id, logits) == i + 1);
}

}  // namespace
}  // namespace ballast::engine
