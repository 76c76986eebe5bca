#include "model/forward/routing.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace ballast::model {

namespace {

// Returns the indices of the `count` largest values, ascending.
std::vector<std::size_t> largest_of(std::span<const float> values, std::size_t count) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<float>{}, [&](std::size_t i) { return values[i]; });
  order.resize(count);
  std::ranges::sort(order);
  return order;
}

float group_score(ExpertSpec::GroupScore kind, std::span<const float> scores) {
  if (kind == ExpertSpec::GroupScore::kMax) return *std::ranges::max_element(scores);
  float best = scores[0];
  float second = scores[1];
  if (second > best) std::swap(best, second);
  for (std::size_t i = 2; i < scores.size(); ++i) {
    if (scores[i] > best) {
      second = best;
      best = scores[i];
    } else {
      second = std::max(second, scores[i]);
    }
  }
  return best + second;
}

}  // namespace

std::vector<float> expert_scores(ExpertSpec::Scoring scoring, std::span<const float> logits) {
  std::vector<float> scores(logits.size());
  if (scoring == ExpertSpec::Scoring::kSigmoid) {
    for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = 1.0F / (1.0F + std::exp(-logits[i]));
    return scores;
  }
  const float largest = *std::ranges::max_element(logits);
  float sum = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    scores[i] = std::exp(logits[i] - largest);
    sum += scores[i];
  }
  for (float& score : scores) score /= sum;
  return scores;
}

std::vector<ExpertChoice> choose_experts(const ExpertSpec& spec, std::span<const float> logits,
                                         std::span<const float> correction) {
  const std::vector<float> scores = expert_scores(spec.scoring, logits);
  // Different logits may round to the same score.
  const bool by_logits = correction.empty() && spec.groups == 1;
  std::vector<float> ranking = by_logits ? std::vector(logits.begin(), logits.end()) : scores;
  for (std::size_t i = 0; i < correction.size(); ++i) ranking[i] += correction[i];

  const std::size_t group_size = spec.count / spec.groups;
  std::vector<float> groups;
  for (std::size_t g = 0; g < spec.groups; ++g) {
    groups.push_back(spec.groups == 1
                         ? 0.0F
                         : group_score(spec.group_score, std::span(ranking).subspan(g * group_size, group_size)));
  }
  std::vector<std::size_t> candidates;
  std::vector<float> candidate_ranking;
  for (const std::size_t group : largest_of(groups, spec.groups_per_token)) {
    for (std::size_t i = group * group_size; i < (group + 1) * group_size; ++i) {
      candidates.push_back(i);
      candidate_ranking.push_back(ranking[i]);
    }
  }
  std::vector<ExpertChoice> chosen;
  float sum = 0;
  for (const std::size_t i : largest_of(candidate_ranking, spec.per_token)) {
    chosen.push_back({candidates[i], scores[candidates[i]]});
    sum += chosen.back().weight;
  }
  const float divisor =
      spec.normalize ? std::max(sum + static_cast<float>(spec.sum_offset), static_cast<float>(spec.least_sum)) : 1.0F;
  for (ExpertChoice& choice : chosen) choice.weight = choice.weight / divisor * static_cast<float>(spec.scale);
  return chosen;
}

}  // namespace ballast::model
