#include "engine/beam_search.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/sampling.h"

namespace ballast::engine {
namespace {

using Logits = std::vector<float>;

constexpr int kEnd = 0;

/// Runs a search whose logits depend only on the last token: those of `after[token]`, at first of `after[1]`.
std::vector<WrittenText> find_texts(const TranslateOptions& options, const std::vector<Logits>& after,
                                    std::size_t most_tokens) {
  const std::vector<int> start = {1};
  const std::vector<int> ends = {kEnd};
  BeamSearch search(options, start, ends, most_tokens);
  while (!search.ended()) {
    std::vector<std::span<const float>> logits;
    for (const BeamSearch::Beam& beam : search.beams()) {
      logits.emplace_back(after[beam.tokens.empty() ? 1 : static_cast<std::size_t>(beam.tokens.back())]);
    }
    search.advance(logits);
  }
  return search.results();
}

Logits probabilities(const std::vector<double>& values) {
  Logits logits;
  for (const double value : values) logits.push_back(static_cast<float>(std::log(value)));
  return logits;
}

/// After token 1, token 2 is likelier than 3, but all that follows 2 is unlikely.
const std::vector<Logits> kMisleading = {
    probabilities({0.25, 0.25, 0.25, 0.25}), probabilities({0.01, 0.01, 0.58, 0.4}),
    probabilities({0.28, 0.24, 0.24, 0.24}), probabilities({0.97, 0.01, 0.01, 0.01})};

TEST_CASE("beams find a text that the most likely tokens miss") {
  const std::vector<WrittenText> greedy = find_texts({.beams = 1}, kMisleading, 5);
  REQUIRE(greedy.size() == 1);
  CHECK(greedy.front().tokens == std::vector<int>{2, kEnd});
  CHECK(greedy.front().score == doctest::Approx((std::log(0.58) + std::log(0.28)) / 2).epsilon(1e-5));
  const std::vector<WrittenText> beams = find_texts({.beams = 2, .hypotheses = 2}, kMisleading, 5);
  REQUIRE(beams.size() == 2);
  CHECK(beams.front().tokens == std::vector<int>{3, kEnd});
  CHECK(beams.front().score == doctest::Approx((std::log(0.4) + std::log(0.97)) / 2).epsilon(1e-5));
  CHECK(beams[0].score > beams[1].score);
}

TEST_CASE("a text of the most tokens ends, with the last token if one is set") {
  const std::vector<Logits> endless(4, probabilities({0.001, 0.1, 0.3, 0.599}));
  for (const std::size_t beams : {1, 3}) {
    CHECK(find_texts({.beams = beams}, endless, 3).front().tokens == std::vector<int>{3, 3, 3});
    CHECK(find_texts({.beams = beams, .last_token = kEnd}, endless, 3).front().tokens == std::vector<int>{3, 3, kEnd});
  }
}

TEST_CASE("rules exclude and force tokens") {
  const std::vector<Logits> same(4, probabilities({0.05, 0.1, 0.25, 0.6}));
  const auto written = [&](TranslateOptions options) {
    options.beams = 1;
    return find_texts(options, same, 4).front().tokens;
  };
  CHECK(written({.no_repeat_ngram = 1}) == std::vector<int>{3, 2, kEnd});  // 1 is in the beginning
  CHECK(written({.no_repeat_ngram = 2}) == std::vector<int>{3, 3, 2, 3});
  CHECK(written({.forbidden_sequences = {{3}}}) == std::vector<int>{2, 2, 2, 2});
  CHECK(written({.forbidden_sequences = {{3, 3}}}) == std::vector<int>{3, 2, 3, 2});
  CHECK(written({.first_tokens = {1, 2}}) == std::vector<int>{1, 2, 3, 3});
  CHECK(written({.repetition_penalty = 100}) == std::vector<int>{3, 2, kEnd});
  const std::vector<Logits> ending(4, probabilities({0.9, 0.02, 0.03, 0.05}));
  CHECK(find_texts({.beams = 1, .min_tokens = 2}, ending, 4).front().tokens == std::vector<int>{3, 3, kEnd});
}

TEST_CASE("a length penalty decides between short and long texts") {
  // A text ends at once with 0.5, or goes on with 0.5 and 0.9 for each further token.
  const std::vector<Logits> after = {probabilities({0.25, 0.25, 0.25, 0.25}), probabilities({0.5, 1e-9, 0.4999, 1e-9}),
                                     probabilities({0.1, 1e-9, 0.8999, 1e-9}), probabilities({0.25, 0.25, 0.25, 0.25})};
  CHECK(find_texts({.beams = 2, .length_penalty = 0, .early_stop = TranslateOptions::EarlyStop::kNever}, after, 12)
            .front()
            .tokens.size() == 1);
  CHECK(find_texts({.beams = 2, .length_penalty = 3, .early_stop = TranslateOptions::EarlyStop::kNever}, after, 12)
            .front()
            .tokens.size() == 12);
}

TEST_CASE("probabilities of the tokens that are left can sum to 1") {
  const std::vector<Logits> same(4, probabilities({0.05, 0.1, 0.25, 0.6}));
  const TranslateOptions options = {.beams = 1, .forbidden_sequences = {{3}}, .renormalize = true};
  CHECK(find_texts(options, same, 1).front().score == doctest::Approx(std::log(0.25 / 0.4)).epsilon(1e-5));
}

TEST_CASE("a search in which no token is left fails") {
  const std::vector<Logits> same(4, probabilities({0.05, 0.1, 0.25, 0.6}));
  CHECK_THROWS_AS(find_texts({.beams = 1, .forbidden_sequences = {{0}, {1}, {2}, {3}}}, same, 2), NoTokenError);
  CHECK_THROWS_AS(find_texts({.beams = 1, .forbidden_sequences = {{0}, {1}, {2}, {3}}, .renormalize = true}, same, 2),
                  NoTokenError);
  const std::vector<Logits> broken(4, Logits{0, NAN, 0, 0});
  CHECK_THROWS(find_texts({.beams = 2}, broken, 2));
}

}  // namespace
}  // namespace ballast::engine
