#include "model/forward/routing.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

namespace ballast::model {
namespace {

using Scoring = ExpertSpec::Scoring;
using GroupScore = ExpertSpec::GroupScore;

/// Implements the definition: first the best groups, then the best experts in them, one after the other.
std::vector<double> reference_weights(const ExpertSpec& spec, const std::vector<float>& logits,
                                      const std::vector<float>& correction) {
  const std::size_t count = logits.size();
  std::vector<double> scores(count);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit});
  for (std::size_t i = 0; i < count; ++i) {
    const double logit = logits[i];
    scores[i] = spec.scoring == Scoring::kSoftmax ? std::exp(logit) / sum : 1 / (1 + std::exp(-logit));
  }
  std::vector<double> ranking = scores;
  for (std::size_t i = 0; i < correction.size(); ++i) ranking[i] += double{correction[i]};

  const std::size_t group_size = count / spec.groups;
  std::vector<bool> open(spec.groups, false);
  for (std::size_t round = 0; round < spec.groups_per_token; ++round) {
    std::size_t best = spec.groups;
    double best_score = 0;
    for (std::size_t g = 0; g < spec.groups; ++g) {
      double first = -1e9;
      double second = -1e9;
      for (std::size_t i = g * group_size; i < (g + 1) * group_size; ++i) {
        if (ranking[i] > first) {
          second = first;
          first = ranking[i];
        } else if (ranking[i] > second) {
          second = ranking[i];
        }
      }
      const double score = spec.group_score == GroupScore::kMax ? first : first + second;
      if (!open[g] && (best == spec.groups || score > best_score)) {
        best = g;
        best_score = score;
      }
    }
    open[best] = true;
  }

  std::vector<double> weights(count, 0.0);
  std::vector<bool> chosen(count, false);
  double total = 0;
  for (std::size_t round = 0; round < spec.per_token; ++round) {
    std::size_t best = count;
    for (std::size_t i = 0; i < count; ++i) {
      if (open[i / group_size] && !chosen[i] && (best == count || ranking[i] > ranking[best])) best = i;
    }
    chosen[best] = true;
    total += scores[best];
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (chosen[i]) weights[i] = scores[i] / (spec.normalize ? total : 1.0) * spec.scale;
  }
  return weights;
}

TEST_CASE("the choice of experts is that of the plain definition") {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (int trial = 0; trial < 400; ++trial) {
    ExpertSpec spec;
    spec.groups = 1 + random() % 4;
    const std::size_t group_size = 2 + random() % 4;
    spec.count = spec.groups * group_size;
    spec.groups_per_token = 1 + random() % spec.groups;
    spec.per_token = 1 + random() % (spec.groups_per_token * group_size);
    spec.scoring = random() % 2 == 0 ? Scoring::kSoftmax : Scoring::kSigmoid;
    spec.group_score = random() % 2 == 0 ? GroupScore::kMax : GroupScore::kTopTwoSum;
    spec.normalize = random() % 2 == 0;
    spec.scale = 1.0 + static_cast<double>(random() % 3);
    std::vector<float> logits(spec.count);
    for (float& logit : logits) logit = normal(random);
    std::vector<float> correction;
    if (random() % 2 == 0) correction.resize(spec.count);
    for (float& value : correction) value = 0.3F * normal(random);
    CAPTURE(trial);

    const std::vector<double> expected = reference_weights(spec, logits, correction);
    std::vector<double> got(spec.count, 0.0);
    const std::vector<ExpertChoice> choices = choose_experts(spec, logits, correction);
    CHECK(choices.size() == spec.per_token);
    for (std::size_t i = 0; i < choices.size(); ++i) {
      got[choices[i].expert] = choices[i].weight;
      if (i > 0) CHECK(choices[i - 1].expert < choices[i].expert);
    }
    for (std::size_t i = 0; i < spec.count; ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-4));
  }
}

std::vector<std::size_t> experts_of(const std::vector<ExpertChoice>& choices) {
  std::vector<std::size_t> experts;
  for (const ExpertChoice& choice : choices) experts.push_back(choice.expert);
  return experts;
}

TEST_CASE("logits decide where scores round to the same number") {
  ExpertSpec spec;
  spec.count = 3;
  spec.per_token = 1;
  spec.scoring = Scoring::kSigmoid;
  const std::vector<float> logits = {30, 40, 35};
  CHECK(expert_scores(spec.scoring, logits) == std::vector<float>{1, 1, 1});
  CHECK(experts_of(choose_experts(spec, logits, {})) == std::vector<std::size_t>{1});
}

TEST_CASE("of equal experts and groups the first ones are chosen") {
  ExpertSpec spec;
  spec.count = 6;
  spec.per_token = 2;
  const std::vector<float> logits(6, 0.5F);
  CHECK(experts_of(choose_experts(spec, logits, {})) == std::vector<std::size_t>{0, 1});
  spec.groups = 3;
  spec.groups_per_token = 2;
  spec.per_token = 3;
  CHECK(experts_of(choose_experts(spec, logits, {})) == std::vector<std::size_t>{0, 1, 2});
}

TEST_CASE("the correction decides the choice and not the weight") {
  ExpertSpec spec;
  spec.count = 3;
  spec.per_token = 1;
  spec.scoring = Scoring::kSigmoid;
  const std::vector<float> correction = {0, 0, 5};
  const std::vector<ExpertChoice> choices = choose_experts(spec, std::vector<float>{2, 1, 0}, correction);
  REQUIRE(choices.size() == 1);
  CHECK(choices[0].expert == 2);
  CHECK(choices[0].weight == doctest::Approx(0.5));
}

TEST_CASE("a group is ranked by the sum of its two best scores if the spec says so") {
  ExpertSpec spec;
  spec.count = 4;
  spec.per_token = 1;
  spec.groups = 2;
  spec.scoring = Scoring::kSigmoid;
  const std::vector<float> logits = {3, -3, 2, 2};
  CHECK(choose_experts(spec, logits, {})[0].expert == 0);
  spec.group_score = GroupScore::kTopTwoSum;
  CHECK(choose_experts(spec, logits, {})[0].expert == 2);
}

TEST_CASE("large logits do not overflow the softmax") {
  ExpertSpec spec;
  spec.count = 2;
  spec.per_token = 1;
  const std::vector<ExpertChoice> choices = choose_experts(spec, std::vector<float>{900, 1000}, {});
  CHECK(choices[0].expert == 1);
  CHECK(choices[0].weight == 1.0F);
}

TEST_CASE("the sum that weights are divided by has an offset and a lower bound") {
  ExpertSpec spec;
  spec.count = 2;
  spec.per_token = 1;
  spec.scoring = Scoring::kSigmoid;
  spec.normalize = true;
  const std::vector<float> logits = {0, -1};
  CHECK(choose_experts(spec, logits, {})[0].weight == 1.0F);
  spec.sum_offset = 0.5;
  CHECK(choose_experts(spec, logits, {})[0].weight == doctest::Approx(0.5));
  spec.sum_offset = 0;
  spec.least_sum = 2;
  CHECK(choose_experts(spec, logits, {})[0].weight == doctest::Approx(0.25));
}

}  // namespace
}  // namespace ballast::model
