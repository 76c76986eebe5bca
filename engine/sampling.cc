#include "engine/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "ballast/error.h"
#include "kernels/logits.h"
#include "kernels/statistics.h"

namespace ballast::engine {
namespace {

// The logit of a forbidden token: its weight is 0.
constexpr float kForbidden = std::numeric_limits<float>::lowest();

void require(bool in_range, std::string_view option, double value, std::string_view range) {
  if (!in_range) throw Error(option, "is " + std::to_string(value) + ", must be " + std::string(range));
}

// Returns a number in [0, 1) from the upper 53 bits: std::uniform_real_distribution differs between implementations.
double uniform(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

}  // namespace

Sampler::Sampler(const GenerateOptions& options)
    : temperature_(options.temperature),
      top_k_(options.top_k),
      top_p_(options.top_p),
      min_p_(options.min_p),
      repetition_penalty_(options.repetition_penalty),
      presence_penalty_(options.presence_penalty),
      frequency_penalty_(options.frequency_penalty),
      logit_bias_(options.logit_bias),
      allowed_tokens_(options.allowed_tokens),
      forbidden_sequences_(options.forbidden_sequences),
      min_tokens_(options.min_tokens),
      random_(options.seed),
      has_window_(options.penalty_window.has_value()),
      seen_(options.penalty_window),
      chosen_(std::nullopt) {
  require(temperature_ >= 0 && std::isfinite(temperature_), "temperature", temperature_, "0 or more");
  require(top_p_ > 0 && top_p_ <= 1, "top_p", top_p_, "above 0 and at most 1");
  require(min_p_ >= 0 && min_p_ <= 1, "min_p", min_p_, "from 0 to 1");
  // Beyond this range, a logit may become infinite.
  require(repetition_penalty_ >= 0.01 && repetition_penalty_ <= 100, "repetition_penalty", repetition_penalty_,
          "from 0.01 to 100");
  require(std::abs(presence_penalty_) <= 2, "presence_penalty", presence_penalty_, "from -2 to 2");
  require(std::abs(frequency_penalty_) <= 2, "frequency_penalty", frequency_penalty_, "from -2 to 2");
  for (const LogitBias& bias : logit_bias_) {
    require(std::abs(bias.bias) <= 100, "logit_bias", double{bias.bias}, "from -100 to 100");
  }
  std::vector<int> never;
  for (const std::vector<int>& sequence : forbidden_sequences_) {
    if (sequence.size() == 1) never.push_back(sequence.front());
  }
  require_allowed(never);
}

void Sampler::forbid_at_first(std::vector<int> tokens) {
  forbidden_at_first_ = std::move(tokens);
  if (min_tokens_ > 0) require_allowed(forbidden_at_first_);
}

/// Throws Error if every allowed token is forbidden.
void Sampler::require_allowed(std::span<const int> forbidden) const {
  const auto is_forbidden = [&](int token) { return std::ranges::find(forbidden, token) != forbidden.end(); };
  if (!allowed_tokens_.empty() && std::ranges::all_of(allowed_tokens_, is_forbidden)) {
    throw Error("allowed_token_ids",
                "has no token that may be chosen: forbidden words and min_tokens exclude all of them");
  }
}

void Sampler::see(std::span<const int> prompt) {
  if (counts_seen()) seen_.add(prompt);
}

void Sampler::remember(int token) {
  ++chosen_count_;
  if (counts_seen()) seen_.add(token);
  if (!has_window_ && counts_tokens()) chosen_.add(token);
  if (!forbidden_sequences_.empty()) answer_.push_back(token);
}

void require_finite(std::span<const float> logits) {
  if (!kernels::all_finite(logits.data(), logits.size())) {
    throw Error("logits", "the model's output is not finite; its weights are damaged or do not fit their type");
  }
}

int Sampler::sample(std::span<const float> logits, std::span<const std::uint32_t> mask) {
  if (logits.empty()) throw Error("logits", "are missing");
  require_finite(logits);
  if (adjusts() || !mask.empty()) logits = adjusted(logits, mask);
  const std::size_t likeliest = kernels::argmax(logits.data(), logits.size());
  if (logits[likeliest] == kForbidden) {
    throw NoTokenError(
        "token",
        "none may be chosen: the constraint, the allowed tokens, the forbidden words and min_tokens exclude all");
  }
  const int token = temperature_ == 0 ? static_cast<int>(likeliest) : draw(logits, logits[likeliest]);
  remember(token);
  return token;
}

bool Sampler::adjusts() const {
  return !seen_.counts().empty() || !chosen_.counts().empty() || !logit_bias_.empty() || !allowed_tokens_.empty() ||
         !forbidden_sequences_.empty() || (chosen_count_ < min_tokens_ && !forbidden_at_first_.empty());
}

/// Returns logits with all adjustments: biases, penalties and forbidden tokens.
std::span<const float> Sampler::adjusted(std::span<const float> logits, std::span<const std::uint32_t> mask) {
  if (!adjusts()) {
    keep_masked(logits, mask);
    return adjusted_;
  }
  adjusted_.assign(logits.begin(), logits.end());
  for (const LogitBias& bias : logit_bias_) {
    const auto index = static_cast<std::size_t>(bias.id);
    if (index < adjusted_.size()) adjusted_[index] += bias.bias;
  }
  penalize();
  if (chosen_count_ < min_tokens_) std::ranges::for_each(forbidden_at_first_, [&](int token) { forbid(token); });
  forbid_sequences();
  if (!allowed_tokens_.empty()) keep_allowed();
  if (!mask.empty()) keep_masked(adjusted_, mask);
  return adjusted_;
}

/// Stores in adjusted_ the logits (or adjusted_ itself) of the tokens in the mask, and forbids the others.
void Sampler::keep_masked(std::span<const float> logits, std::span<const std::uint32_t> mask) {
  constexpr std::size_t kBits = 32;
  const std::size_t size = logits.size();
  if (logits.data() != adjusted_.data()) adjusted_.resize(size);
  const float* from = logits.data();
  float* to = adjusted_.data();
  for (std::size_t word = 0; word * kBits < size; ++word) {
    const std::uint32_t bits = word < mask.size() ? mask[word] : 0;
    const std::size_t begin = word * kBits;
    const std::size_t end = std::min(begin + kBits, size);
    if (bits == 0) {
      std::fill(to + begin, to + end, kForbidden);
    } else {
      for (std::size_t i = begin; i < end; ++i) to[i] = (bits >> (i - begin) & 1U) != 0 ? from[i] : kForbidden;
    }
  }
}

// A logit below zero is multiplied by the repetition penalty, as in CTRL's published code: dividing it would make the
// token likelier.
void Sampler::penalize() {
  const auto penalty = static_cast<float>(repetition_penalty_);
  for (const auto& [token, times] : seen_.counts()) {
    const auto index = static_cast<std::size_t>(token);
    if (index >= adjusted_.size() || repetition_penalty_ == 1) continue;
    adjusted_[index] = adjusted_[index] > 0 ? adjusted_[index] / penalty : adjusted_[index] * penalty;
  }
  for (const auto& [token, times] : (has_window_ ? seen_ : chosen_).counts()) {
    const auto index = static_cast<std::size_t>(token);
    if (index >= adjusted_.size()) continue;
    adjusted_[index] -= static_cast<float>(presence_penalty_ + frequency_penalty_ * times);
  }
}

void Sampler::forbid(int token) {
  const auto index = static_cast<std::size_t>(token);
  if (index < adjusted_.size()) adjusted_[index] = kForbidden;
}

/// Forbids the last token of each sequence whose other tokens are at the end of the answer.
void Sampler::forbid_sequences() {
  for (const std::vector<int>& sequence : forbidden_sequences_) {
    if (sequence.empty() || sequence.size() - 1 > answer_.size()) continue;
    const std::span<const int> before = std::span(sequence).first(sequence.size() - 1);
    if (std::ranges::equal(before, std::span(answer_).last(before.size()))) forbid(sequence.back());
  }
}

void Sampler::keep_allowed() {
  allowed_.clear();
  for (const int token : allowed_tokens_) {
    const auto index = static_cast<std::size_t>(token);
    allowed_.push_back(index < adjusted_.size() ? adjusted_[index] : kForbidden);
  }
  std::ranges::fill(adjusted_, kForbidden);
  for (std::size_t i = 0; i < allowed_tokens_.size(); ++i) {
    const auto index = static_cast<std::size_t>(allowed_tokens_[i]);
    if (index < adjusted_.size()) adjusted_[index] = allowed_[i];
  }
}

int Sampler::draw(std::span<const float> logits, float largest) {
  constexpr double kSteepest = 1e30;  // a smaller temperature has the same effect, and its reciprocal is finite
  weights_.resize(logits.size());
  sums_.resize((logits.size() + kernels::kWeightBlock - 1) / kernels::kWeightBlock);
  const auto scale = static_cast<float>(std::min(1 / temperature_, kSteepest));
  const double total =
      kernels::sum_weights(logits.data(), logits.size(), largest, scale, weights_.data(), sums_.data());
  if (top_k_ == 0 && top_p_ == 1 && min_p_ == 0) return draw_of_all(total);
  collect_candidates(logits, total);
  keep_likeliest(total);
  return draw_candidate();
}

/// Returns the weights of block `block`.
std::span<const float> Sampler::weights_of(std::size_t block) const {
  const std::size_t begin = block * kernels::kWeightBlock;
  return std::span(weights_).subspan(begin, std::min(kernels::kWeightBlock, weights_.size() - begin));
}

int Sampler::draw_of_all(double total) {
  double target = uniform(random_) * total;
  std::size_t block = 0;
  while (block + 1 < sums_.size() && target >= sums_[block]) target -= sums_[block++];
  const std::span<const float> weights = weights_of(block);
  // Because of rounding the walk may not end in the block; then its last token with a weight is chosen.
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < weights.size() && target >= 0; ++i) {
    if (weights[i] == 0) continue;
    chosen = i;
    target -= double{weights[i]};
  }
  return static_cast<int>(block * kernels::kWeightBlock + chosen);
}

/// Collects the most likely tokens, at least those that top-k and top-p keep: usually a handful of a hundred thousand.
void Sampler::collect_candidates(std::span<const float> logits, double total) {
  constexpr float kFirstThreshold = 1.0F / 64;
  constexpr float kThresholdStep = 1.0F / 64;
  candidates_.reserve(logits.size());
  for (float threshold = kFirstThreshold;; threshold *= kThresholdStep) {
    candidates_.clear();
    double sum = 0;
    for (std::size_t block = 0; block < sums_.size(); ++block) {
      if (sums_[block] < double{threshold}) continue;
      const std::span<const float> weights = weights_of(block);
      for (std::size_t i = 0; i < weights.size(); ++i) {
        if (weights[i] < threshold) continue;
        const std::size_t token = block * kernels::kWeightBlock + i;
        candidates_.push_back({logits[token], weights[i], static_cast<int>(token)});
        sum += double{weights[i]};
      }
    }
    const bool enough =
        top_k_ != 0 ? candidates_.size() >= top_k_ : sum >= top_p_ * total || double{threshold} <= min_p_;
    if (enough || threshold == 0) return;
  }
}

void Sampler::keep_likeliest(double total) {
  const auto less_likely = [](const Candidate& a, const Candidate& b) {
    return a.logit < b.logit || (a.logit == b.logit && a.token > b.token);
  };
  if (top_k_ != 0 && top_k_ < candidates_.size()) {
    const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(top_k_);
    std::nth_element(candidates_.begin(), end, candidates_.end(),
                     [&](const Candidate& a, const Candidate& b) { return less_likely(b, a); });
    candidates_.erase(end, candidates_.end());
  }
  std::make_heap(candidates_.begin(), candidates_.end(), less_likely);
  if (top_k_ != 0) total = candidate_sum();
  auto end = candidates_.end();
  for (double kept = 0; end != candidates_.begin() && kept < top_p_ * total; kept += double{end->weight}) {
    if (double{candidates_.front().weight} < min_p_) break;
    std::pop_heap(candidates_.begin(), end--, less_likely);
  }
  candidates_.erase(candidates_.begin(), end);
}

double Sampler::candidate_sum() const {
  double sum = 0;
  for (const Candidate& candidate : candidates_) sum += double{candidate.weight};
  return sum;
}

int Sampler::draw_candidate() {
  // The target is below the sum, which the walk reaches with the last candidate, so it ends in the list.
  const double target = uniform(random_) * candidate_sum();
  std::size_t chosen = 0;
  for (double sum = double{candidates_[0].weight}; sum <= target; sum += double{candidates_[chosen].weight}) ++chosen;
  return candidates_[chosen].token;
}

}  // namespace ballast::engine
