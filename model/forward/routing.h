// The choice of experts for each token, and their weights.
#ifndef BALLAST_MODEL_FORWARD_ROUTING_H_
#define BALLAST_MODEL_FORWARD_ROUTING_H_

#include <cstddef>
#include <span>
#include <vector>

#include "ballast/spec.h"

namespace ballast::model {

struct ExpertChoice {
  std::size_t expert = 0;
  float weight = 0;
};

/// Returns the experts of one token from the router's logits [count], in ascending order. `correction` is [count] or
/// empty. Of groups and experts with equal scores, the first ones are chosen.
std::vector<ExpertChoice> choose_experts(const ExpertSpec& spec, std::span<const float> logits,
                                         std::span<const float> correction);

/// Returns the score of each expert from a router's logits [count], before any are excluded.
std::vector<float> expert_scores(ExpertSpec::Scoring scoring, std::span<const float> logits);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_FORWARD_ROUTING_H_
