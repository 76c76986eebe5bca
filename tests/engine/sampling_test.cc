#include "engine/sampling.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "ballast/error.h"

namespace ballast::engine {
namespace {

std::map<int, int> count_draws(const GenerateOptions& options, const std::vector<float>& logits, int draws) {
  Sampler sampler(options);
  std::map<int, int> counts;
  for (int i = 0; i < draws; ++i) ++counts[sampler.sample(logits)];
  return counts;
}

std::set<int> drawn_tokens(const GenerateOptions& options, const std::vector<float>& logits) {
  std::set<int> tokens;
  for (const auto& [token, count] : count_draws(options, logits, 2000)) tokens.insert(token);
  return tokens;
}

TEST_CASE("temperature 0 takes the likeliest token, the first one on a tie") {
  Sampler sampler(GenerateOptions{});
  CHECK(sampler.sample(std::vector<float>{1, 5, 5, -3}) == 1);
}

TEST_CASE("tokens have the frequencies of the softmax at the temperature") {
  GenerateOptions options{.temperature = 2, .stop = {}};
  const std::vector<float> logits{0, 2, 4, -40};
  const std::map<int, int> counts = count_draws(options, logits, 100000);
  const double total = 1 + std::exp(1.0) + std::exp(2.0);
  for (const int token : {0, 1, 2}) {
    const double share = std::exp(token) / total;
    const double deviation = std::sqrt(share * (1 - share) / 100000);
    CHECK(std::abs(counts.at(token) / 100000.0 - share) < 4 * deviation);
  }
}

TEST_CASE("one seed gives one sequence, and with equal logits it is this one on every platform") {
  GenerateOptions options{.temperature = 1, .seed = 7, .stop = {}};
  const std::vector<float> logits(1000, 0.0F);
  Sampler sampler(options);
  std::vector<int> tokens;
  for (int i = 0; i < 4; ++i) tokens.push_back(sampler.sample(logits));
  // floor(1000 * u) of std::mt19937_64(7), whose raw output the standard fixes.
  std::mt19937_64 random(7);
  for (const int token : tokens) CHECK(token == static_cast<int>(static_cast<double>(random() >> 11) * 0x1p-53 * 1000));

  Sampler again(options);
  for (const int token : tokens) CHECK(again.sample(logits) == token);
  options.seed = 8;
  Sampler other(options);
  std::vector<int> others;
  for (int i = 0; i < 4; ++i) others.push_back(other.sample(logits));
  CHECK(others != tokens);
}

TEST_CASE("tokens of a large vocabulary have the frequencies of their weights in all blocks") {
  const std::vector<int> likely{0, 511, 512, 1500, 2999};
  std::vector<float> logits(3000, -60.0F);
  double total = 0;
  for (const int token : likely) {
    logits[static_cast<std::size_t>(token)] = static_cast<float>(token % 5) / 2;
    total += std::exp(token % 5 / 2.0);
  }
  for (const double top_p : {1.0, 0.999999}) {
    const std::map<int, int> counts = count_draws({.temperature = 1, .top_p = top_p, .stop = {}}, logits, 100000);
    CHECK(counts.size() == likely.size());
    for (const int token : likely) {
      const double share = std::exp(token % 5 / 2.0) / total;
      CHECK(std::abs(counts.at(token) / 100000.0 - share) < 4 * std::sqrt(share * (1 - share) / 100000));
    }
  }
}

TEST_CASE("top-k and top-p look at as many tokens as they need when all are alike") {
  std::vector<float> logits(2000);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i) * 0.01F;  // weights down to e^-20
  const auto lowest = [&](const GenerateOptions& options) { return *drawn_tokens(options, logits).begin(); };
  CHECK(lowest({.temperature = 100, .top_k = 1900, .stop = {}}) >= 100);
  CHECK(lowest({.temperature = 100, .top_k = 1900, .stop = {}}) < 120);
  CHECK(lowest({.temperature = 1e9, .top_p = 0.5, .stop = {}}) >= 1000);
  CHECK(lowest({.temperature = 1e300, .stop = {}}) < 10);
}

TEST_CASE("top-k keeps the k likeliest, the lower ids on a tie") {
  const std::vector<float> logits{1, 3, 2, 2, 2, 0};
  CHECK(drawn_tokens({.temperature = 1, .top_k = 3, .stop = {}}, logits) == std::set<int>{1, 2, 3});
  CHECK(drawn_tokens({.temperature = 1, .top_k = 1, .stop = {}}, logits) == std::set<int>{1});
  CHECK(drawn_tokens({.temperature = 1, .top_k = 60, .stop = {}}, logits).size() == 6);
}

TEST_CASE("top-p keeps the fewest likeliest tokens that reach it") {
  // Probabilities 0.4, 0.3, 0.2, 0.1.
  const std::vector<float> logits{std::log(0.1F), std::log(0.3F), std::log(0.4F), std::log(0.2F)};
  CHECK(drawn_tokens({.temperature = 1, .top_p = 0.05, .stop = {}}, logits) == std::set<int>{2});
  CHECK(drawn_tokens({.temperature = 1, .top_p = 0.5, .stop = {}}, logits) == std::set<int>{1, 2});
  CHECK(drawn_tokens({.temperature = 1, .top_p = 0.85, .stop = {}}, logits) == std::set<int>{1, 2, 3});
  CHECK(drawn_tokens({.temperature = 1, .top_p = 1, .stop = {}}, logits).size() == 4);
}

TEST_CASE("top-p counts over what top-k left") {
  // Of the two kept, 0.4 and 0.3, the first has 0.57.
  const std::vector<float> logits{std::log(0.1F), std::log(0.3F), std::log(0.4F), std::log(0.2F)};
  CHECK(drawn_tokens({.temperature = 1, .top_k = 2, .top_p = 0.55, .stop = {}}, logits) == std::set<int>{2});
}

TEST_CASE("the repetition penalty makes seen tokens less likely with positive and negative logits") {
  Sampler sampler(GenerateOptions{.repetition_penalty = 2, .stop = {}});
  const std::vector<float> positive{3, 2};
  CHECK(sampler.sample(positive) == 0);
  CHECK(sampler.sample(positive) == 1);
  CHECK(sampler.sample(positive) == 0);

  Sampler with_prompt(GenerateOptions{.repetition_penalty = 2, .stop = {}});
  with_prompt.see(std::vector<int>{1});
  CHECK(with_prompt.sample(std::vector<float>{-3, -2}) == 0);
}

TEST_CASE("a token seen twice is penalized once, however long ago that was") {
  Sampler sampler(GenerateOptions{.repetition_penalty = 2, .stop = {}});
  sampler.see(std::vector<int>{0, 0});
  CHECK(sampler.sample(std::vector<float>{3, 1}) == 0);
  sampler.see(std::vector<int>(200, 2));
  CHECK(sampler.sample(std::vector<float>{3, 2}) == 1);
}

TEST_CASE("a penalty window forgets tokens, and makes all penalties count the prompt") {
  const auto first = [](const GenerateOptions& options, const std::vector<int>& prompt) {
    Sampler sampler(options);
    sampler.see(prompt);
    return sampler.sample(std::vector<float>{3, 2, -9});
  };
  const std::vector<int> prompt{0, 2, 2, 2};
  CHECK(first({.repetition_penalty = 2, .penalty_window = 3, .stop = {}}, prompt) == 0);
  CHECK(first({.repetition_penalty = 2, .penalty_window = 4, .stop = {}}, prompt) == 1);
  CHECK(first({.repetition_penalty = 2, .penalty_window = 0, .stop = {}}, prompt) == 0);
  CHECK(first({.presence_penalty = 2, .stop = {}}, prompt) == 0);
  CHECK(first({.presence_penalty = 2, .penalty_window = 4, .stop = {}}, prompt) == 1);
  CHECK(first({.frequency_penalty = 2, .penalty_window = 0, .stop = {}}, prompt) == 0);
}

TEST_CASE("a penalty window moves on with the answer") {
  Sampler sampler(GenerateOptions{.frequency_penalty = 2, .penalty_window = 2, .stop = {}});
  sampler.see(std::vector<int>{0, 0});
  const std::vector<float> logits{3, 2};
  CHECK(sampler.sample(logits) == 1);  // 3 - 2 * 2 < 2
  CHECK(sampler.sample(logits) == 0);  // 3 - 2 > 2 - 2
  CHECK(sampler.sample(logits) == 0);  // the window has 1 and 0
  CHECK(sampler.sample(logits) == 1);
}

TEST_CASE("only allowed tokens are chosen, even if others are likelier or have a bias") {
  const std::vector<float> logits{9, 1, 2, 8};
  CHECK(drawn_tokens({.temperature = 1, .allowed_tokens = {1, 2, 2, 99}, .stop = {}}, logits) == std::set<int>{1, 2});
  CHECK(drawn_tokens({.temperature = 1, .top_k = 3, .allowed_tokens = {1}, .stop = {}}, logits) == std::set<int>{1});
  Sampler sampler(GenerateOptions{.logit_bias = {{.id = 0, .bias = 100}}, .allowed_tokens = {2, 1}, .stop = {}});
  CHECK(sampler.sample(logits) == 2);
}

TEST_CASE("a forbidden sequence does not become complete, and its tokens come alone") {
  Sampler sampler(GenerateOptions{.forbidden_sequences = {{0, 1}, {2}}, .stop = {}});
  CHECK(sampler.sample(std::vector<float>{1, 2, 9}) == 1);
  CHECK(sampler.sample(std::vector<float>{5, 2, 9}) == 0);
  CHECK(sampler.sample(std::vector<float>{1, 5, 9}) == 0);
  // The prompt is not a part of the answer.
  Sampler begins(GenerateOptions{.forbidden_sequences = {{0, 1}}, .stop = {}});
  begins.see(std::vector<int>{0});
  CHECK(begins.sample(std::vector<float>{1, 2}) == 1);
}

TEST_CASE("an error is thrown if no token is allowed, before generation if known by then") {
  CHECK_THROWS_AS(Sampler(GenerateOptions{.allowed_tokens = {1}, .forbidden_sequences = {{1}}, .stop = {}}), Error);
  Sampler begins(GenerateOptions{.allowed_tokens = {1, 2}, .stop = {}, .min_tokens = 1});
  CHECK_NOTHROW(begins.forbid_at_first({1}));
  CHECK_THROWS_AS(begins.forbid_at_first({2, 1}), Error);
  Sampler sampler(GenerateOptions{.allowed_tokens = {1}, .forbidden_sequences = {{1, 1}}, .stop = {}});
  CHECK(sampler.sample(std::vector<float>{1, 2}) == 1);
  CHECK_THROWS_AS(sampler.sample(std::vector<float>{1, 2}), Error);
}

TEST_CASE("min-p keeps tokens whose probability is close to the maximum") {
  // 0.4, 0.3, 0.2, 0.1
  const std::vector<float> logits{std::log(0.1F), std::log(0.3F), std::log(0.4F), std::log(0.2F)};
  CHECK(drawn_tokens({.temperature = 1, .min_p = 0.6, .stop = {}}, logits) == std::set<int>{1, 2});
  CHECK(drawn_tokens({.temperature = 1, .min_p = 1, .stop = {}}, logits) == std::set<int>{2});
  CHECK(drawn_tokens({.temperature = 1, .min_p = 0.01, .stop = {}}, logits) == std::set<int>{0, 1, 2, 3});
  CHECK(drawn_tokens({.temperature = 1, .top_k = 3, .min_p = 0.6, .stop = {}}, logits) == std::set<int>{1, 2});
}

TEST_CASE("a bias is added to its token's logit, and unknown ids are harmless") {
  Sampler sampler(GenerateOptions{.logit_bias = {{.id = 1, .bias = 3}, {.id = 99, .bias = 50}}, .stop = {}});
  CHECK(sampler.sample(std::vector<float>{2, 0, 1}) == 1);
  CHECK(sampler.sample(std::vector<float>{4, 0, 1}) == 0);
}

TEST_CASE("the presence penalty counts once, the frequency penalty each time, and neither counts the prompt") {
  Sampler presence(GenerateOptions{.presence_penalty = 1.5, .stop = {}});
  presence.see(std::vector<int>{0});
  const std::vector<float> logits{3, 2, 0};
  CHECK(presence.sample(logits) == 0);
  CHECK(presence.sample(logits) == 1);  // 1.5, 2
  CHECK(presence.sample(logits) == 0);  // 1.5, 0.5
  CHECK(presence.sample(logits) == 0);
  Sampler frequency(GenerateOptions{.frequency_penalty = 1.5, .stop = {}});
  CHECK(frequency.sample(logits) == 0);
  CHECK(frequency.sample(logits) == 1);  // 1.5, 2
  CHECK(frequency.sample(logits) == 0);  // 1.5, 0.5
  CHECK(frequency.sample(logits) == 1);  // 0, 0.5, 0
}

TEST_CASE("tokens that would end a text are not chosen before there are enough") {
  Sampler sampler(GenerateOptions{.stop = {}, .min_tokens = 2});
  sampler.forbid_at_first({0});
  const std::vector<float> logits{9, 1, 2};
  CHECK(sampler.sample(logits) == 2);
  CHECK(sampler.sample(logits) == 2);
  CHECK(sampler.sample(logits) == 0);
  Sampler drawn(GenerateOptions{.temperature = 5, .stop = {}, .min_tokens = 1000});
  drawn.forbid_at_first({0});
  for (int i = 0; i < 200; ++i) CHECK(drawn.sample(logits) != 0);
}

TEST_CASE("tokens of vanishing weight are never drawn and extreme logits do not overflow") {
  const std::vector<float> logits{-3e38F, 3e38F, -3e38F};
  CHECK(drawn_tokens({.temperature = 1e-300, .stop = {}}, logits) == std::set<int>{1});
  CHECK(drawn_tokens({.temperature = 1, .top_p = 0.9, .stop = {}}, logits) == std::set<int>{1});
}

TEST_CASE("options out of range and logits that are no numbers are refused") {
  CHECK_THROWS_AS(Sampler({.temperature = -1, .stop = {}}), Error);
  CHECK_THROWS_AS(Sampler({.temperature = std::nan(""), .stop = {}}), Error);
  CHECK_THROWS_AS(Sampler({.top_p = 0, .stop = {}}), Error);
  CHECK_THROWS_AS(Sampler({.top_p = 1.5, .stop = {}}), Error);
  CHECK_THROWS_AS(Sampler({.min_p = -0.1, .stop = {}}), Error);
  CHECK_THROWS_AS(Sampler({.min_p = 1.1, .stop = {}}), Error);
  CHECK_THROWS_AS(Sampler({.repetition_penalty = 0, .stop = {}}), Error);
  CHECK_THROWS_AS(Sampler({.presence_penalty = 3, .stop = {}}), Error);
  CHECK_THROWS_AS(Sampler({.frequency_penalty = -3, .stop = {}}), Error);
  CHECK_THROWS_AS(Sampler({.frequency_penalty = std::nan(""), .stop = {}}), Error);
  CHECK_THROWS_AS(Sampler({.logit_bias = {{.id = 0, .bias = 101}}, .stop = {}}), Error);
  Sampler sampler(GenerateOptions{});
  CHECK_THROWS_AS(sampler.sample(std::vector<float>{}), Error);
  CHECK_THROWS_AS(sampler.sample(std::vector<float>{0, std::nanf("")}), Error);
  CHECK_THROWS_AS(sampler.sample(std::vector<float>{0, std::numeric_limits<float>::infinity()}), Error);
}

}  // namespace
}  // namespace ballast::engine
