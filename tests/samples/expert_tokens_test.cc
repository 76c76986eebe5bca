#include "samples/expert_tokens.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "ballast/calibrate.h"
#include "ballast/statistics.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast::samples {
namespace {

constexpr std::size_t kHidden = 2;
constexpr std::size_t kExperts = 3;

/// Tokens with one expert each; row and mark identify the token.
struct Batch {
  Batch(std::vector<float> router, const std::vector<std::size_t>& expert_of) : logits(std::move(router)) {
    routing.tokens = expert_of.size();
    routing.of_expert.resize(kExperts);
    for (std::size_t t = 0; t < expert_of.size(); ++t) {
      routing.of_expert[expert_of[t]].push_back(t);
      rows.insert(rows.end(), kHidden, static_cast<float>(t));
      marks.push_back(static_cast<float>(t) / 10);
    }
    routing.rows = rows.data();
    routing.logits = logits.data();
  }

  std::vector<float> logits;
  std::vector<float> rows;
  std::vector<float> marks;
  model::RoutedTokens routing;
};

ExpertTokens::Shape shape(std::size_t size, std::size_t samples, std::size_t length) {
  return {.experts = {.count = kExperts, .per_token = 1, .size = size},
          .hidden_size = kHidden,
          .samples = samples,
          .length = length,
          .own = {0, samples}};
}

std::vector<float> stand_ins(const ExpertTokens& tokens, std::size_t expert, std::size_t sample) {
  std::vector<float> marks;
  tokens.visit(expert, sample, [&](const float* rows, std::size_t count, std::span<const float> own) {
    REQUIRE(own.size() == count);
    for (std::size_t i = 0; i < count; ++i) CHECK(rows[i * kHidden] == doctest::Approx(own[i] * 10));
    marks.insert(marks.end(), own.begin(), own.end());
  });
  return marks;
}

TEST_CASE("a starved expert is also run on the tokens that came closest to being routed to it") {
  // Expert 1 lacks 2 tokens of 3; the first and the last token came closest to it.
  const Batch batch({5, 4, 0,  //
                     0, 9, 0,  // routed to it
                     5, 1, 0,  //
                     0, 0, 7,  //
                     5, 3, 0},
                    {0, 1, 0, 2, 0});
  ExpertTokens tokens(shape(3, 1, 5));
  tokens.add(batch.routing, 0, batch.marks);
  tokens.finish(single_rank());
  CHECK(std::ranges::equal(tokens.counts(), std::vector<std::uint64_t>{3, 1, 1}));
  CHECK(!tokens.is_starved(0));
  CHECK(stand_ins(tokens, 0, 0).empty());
  CHECK(stand_ins(tokens, 1, 0) == std::vector<float>{0.0F, 0.4F});
}

TEST_CASE("every sample contributes the same number of tokens, for all batches") {
  const std::vector<float> logits = {3, 1, 0, 3, 2, 0, 3, 0, 0, 3, 2.5F, 0};
  const Batch both({3, 1, 0, 3, 2, 0, 3, 0, 0, 3, 2.5F, 0}, {0, 0, 0, 0});
  ExpertTokens together(shape(2, 2, 2));
  together.add(both.routing, 0, both.marks);
  together.finish(single_rank());
  ExpertTokens apart(shape(2, 2, 2));
  for (const std::size_t sample : {0, 1}) {
    Batch one({logits.begin() + static_cast<std::ptrdiff_t>(sample * 6),
               logits.begin() + static_cast<std::ptrdiff_t>(sample * 6 + 6)},
              {0, 0});
    for (std::size_t i = 0; i < 2; ++i) {
      one.marks[i] = both.marks[2 * sample + i];
      std::fill_n(one.rows.begin() + static_cast<std::ptrdiff_t>(i * kHidden), kHidden, one.marks[i] * 10);
    }
    apart.add(one.routing, sample, one.marks);
  }
  apart.finish(single_rank());
  CHECK(stand_ins(together, 1, 0) == std::vector<float>{0.1F});
  CHECK(stand_ins(together, 1, 1) == std::vector<float>{0.3F});
  for (const std::size_t sample : {0, 1}) CHECK(stand_ins(apart, 1, sample) == stand_ins(together, 1, sample));
}

TEST_CASE("a token that the correction routed to an expert is not used as a substitute for it, even with a low logit") {
  const Batch batch({5, 1, 0, 5, 1, 0}, {1, 0});
  ExpertTokens tokens(shape(2, 1, 2));
  tokens.add(batch.routing, 0, batch.marks);
  tokens.finish(single_rank());
  CHECK(stand_ins(tokens, 1, 0) == std::vector<float>{0.1F});
}

TEST_CASE("entropy is that of the shares, and experts without enough tokens are starved") {
  const ExpertStatistics even = {.layer = 1, .columns = 5, .tokens = {5, 5, 5, 5}, .stand_ins = {0, 0, 0, 0}};
  CHECK(even.entropy() == doctest::Approx(2));
  CHECK(even.starved().empty());
  const ExpertStatistics skewed = {.layer = 1, .columns = 5, .tokens = {8, 0, 4, 4}, .stand_ins = {0, 5, 1, 1}};
  CHECK(skewed.entropy() == doctest::Approx(1.5));
  CHECK(skewed.starved() == std::vector<std::size_t>{1, 2, 3});
  CHECK(ExpertStatistics{.layer = 1, .columns = 1, .tokens = {0, 0}, .stand_ins = {0, 0}}.entropy() == 0);
}

TEST_CASE(
    "calibration counts the tokens of every expert, measures starved ones on others, and keeps that in the file") {
  const test::TemporaryDirectory directory;
  const Statistics statistics =
      calibrate(test::golden_model("qwen3_moe"), {.text_files = {}, .samples = 2, .length = 8});
  REQUIRE(statistics.experts.size() == 1);
  const ExpertStatistics& experts = statistics.experts.front();
  CHECK(experts.layer == 1);
  CHECK(experts.columns == 16);
  REQUIRE(experts.tokens.size() == 5);
  CHECK(std::accumulate(experts.tokens.begin(), experts.tokens.end(), std::uint64_t{0}) == 2 * 8 * 2);
  for (std::size_t e = 0; e < 5; ++e) {
    CHECK((experts.stand_ins[e] > 0) == (experts.tokens[e] < 16));
    CHECK(experts.tokens[e] + experts.stand_ins[e] <= 16 + 1);
  }
  for (const LinearInputStatistics& input : statistics.inputs) {
    CHECK(*std::ranges::max_element(input.channels.mean_square) > 0);  // also for starved experts
  }
  save_statistics(statistics, directory / "stats", false);
  const Statistics read = load_statistics(directory / "stats");
  REQUIRE(read.experts.size() == 1);
  CHECK(read.experts.front().tokens == experts.tokens);
  CHECK(read.experts.front().stand_ins == experts.stand_ins);
  CHECK(read.experts.front().columns == 16);
  CHECK(serialize_statistics(read) == serialize_statistics(statistics));
}

}  // namespace
}  // namespace ballast::samples
