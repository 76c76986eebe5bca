#include "engine/sampling.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "ballast/error.h"
#include "kernels/logits.h"
#include "kernels/statistics.h"

namespace ballast::engine {
namespace {

void require(bool in_range, std::string_view option, double value, std::string_view range) {
  if (!in_range) throw Error(option, "is " + std::to_string(value) + ", must be " + std::string(range));
}

// In [0, 1), from the upper 53 bits: std::uniform_real_distribution is not the same everywhere.
double uniform(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

}  // namespace

Sampler::Sampler(const GenerateOptions& options)
    : temperature_(options.temperature),
      top_k_(options.top_k),
      top_p_(options.top_p),
      repetition_penalty_(options.repetition_penalty),
      random_(options.seed) {
  require(temperature_ >= 0 && std::isfinite(temperature_), "temperature", temperature_, "0 or more");
  require(top_p_ > 0 && top_p_ <= 1, "top_p", top_p_, "above 0 and at most 1");
  // Beyond, a logit would not stay finite.
  require(repetition_penalty_ >= 0.01 && repetition_penalty_ <= 100, "repetition_penalty", repetition_penalty_,
          "from 0.01 to 100");
}

void Sampler::remember(int token) {
  recent_[remembered_++ % kPenaltyWindow] = token;
}

void require_finite(std::span<const float> logits) {
  if (!kernels::all_finite(logits.data(), logits.size())) {
    throw Error("logits", "the model's output is not finite; its weights are damaged or do not fit their type");
  }
}

int Sampler::sample(std::span<const float> logits) {
  if (logits.empty()) throw Error("logits", "there are none");
  require_finite(logits);
  if (repetition_penalty_ != 1) logits = penalize(logits);
  const std::size_t likeliest = kernels::argmax(logits.data(), logits.size());
  const int token = temperature_ == 0 ? static_cast<int>(likeliest) : draw(logits, logits[likeliest]);
  remember(token);
  return token;
}

// A logit below zero is multiplied, as in CTRL's published code: dividing it would make the token likelier.
std::span<const float> Sampler::penalize(std::span<const float> logits) {
  penalized_.assign(logits.begin(), logits.end());
  const auto penalty = static_cast<float>(repetition_penalty_);
  for (const int token : std::span(recent_).first(std::min(remembered_, kPenaltyWindow))) {
    const auto index = static_cast<std::size_t>(token);
    if (index >= logits.size()) continue;
    penalized_[index] = logits[index] > 0 ? logits[index] / penalty : logits[index] * penalty;
  }
  return penalized_;
}

int Sampler::draw(std::span<const float> logits, float largest) {
  candidates_.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double distance = static_cast<double>(logits[i]) - static_cast<double>(largest);
    candidates_[i] = {std::exp(distance / temperature_), static_cast<int>(i)};
  }
  if (top_k_ != 0 || top_p_ < 1) keep_likeliest();
  return draw_candidate();
}

// A heap instead of sorting: most often a handful of a hundred thousand tokens remain.
void Sampler::keep_likeliest() {
  const auto less_likely = [](const Candidate& a, const Candidate& b) {
    return a.weight < b.weight || (a.weight == b.weight && a.token > b.token);
  };
  if (top_k_ != 0 && top_k_ < candidates_.size()) {
    const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(top_k_);
    std::nth_element(candidates_.begin(), end, candidates_.end(),
                     [&](const Candidate& a, const Candidate& b) { return less_likely(b, a); });
    candidates_.erase(end, candidates_.end());
  }
  std::make_heap(candidates_.begin(), candidates_.end(), less_likely);
  double total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;

  auto end = candidates_.end();
  for (double kept = 0; end != candidates_.begin() && kept < top_p_ * total; kept += end->weight) {
    std::pop_heap(candidates_.begin(), end--, less_likely);
  }
  candidates_.erase(candidates_.begin(), end);
}

int Sampler::draw_candidate() {
  double total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  // Below `total`, which the same sum reaches again with the last candidate: the walk ends in the list.
  const double target = uniform(random_) * total;
  std::size_t chosen = 0;
  for (double sum = candidates_[0].weight; sum <= target; sum += candidates_[chosen].weight) ++chosen;
  return candidates_[chosen].token;
}

}  // namespace ballast::engine
