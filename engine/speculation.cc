#include "engine/speculation.h"

#include <algorithm>
#include <string>

#include "ballast/error.h"

namespace ballast::engine {

namespace {

/// The weight of the latest value in moving averages.
constexpr double kLatest = 1.0 / 8;

void move_average(double& average, double latest) {
  average += kLatest * (latest - average);
}

/// More drafts are never all accepted, and their logits take memory.
constexpr std::size_t kMostTokens = 64;

/// The relative cost of one more token in a step before it is measured: SmolLM2 and Qwen2.5-1.5B, INT4 and INT8, take 0
/// to 0.3.
constexpr double kExpectedTokenCost = 0.2;

}  // namespace

void AcceptanceRate::count(bool accepted) {
  move_average(rate_, accepted ? 1.0 : 0.0);
}

void AcceptanceRate::forget_a_little() {
  constexpr double kForgotten = 1.0 / 128;
  rate_ += kForgotten * (expected_ - rate_);
}

StepCosts::StepCosts(std::size_t most_tokens) {
  for (std::size_t count = 1; count <= most_tokens; ++count) {
    costs_.push_back(1 + kExpectedTokenCost * static_cast<double>(count));
  }
}

void StepCosts::measure(std::size_t draft_tokens, double seconds) {
  if (draft_tokens == 0) {
    if (seconds_ == 0) seconds_ = seconds;
    return move_average(seconds_, seconds);
  }
  // A step that was delayed by something else is not representative.
  const auto most = static_cast<double>(1 + draft_tokens);
  const double error = std::clamp(seconds / seconds_, 1.0, most) - costs_[draft_tokens - 1];
  // The cost also updates similar numbers of tokens, with a weight that falls with the distance.
  for (std::size_t count = 1; count <= costs_.size(); ++count) {
    const std::size_t distance = std::max(count, draft_tokens) - std::min(count, draft_tokens);
    costs_[count - 1] += kLatest * error / static_cast<double>(1 + distance);
  }
}

std::size_t worthwhile_tokens(std::span<const double> acceptance, std::span<const double> costs) {
  constexpr double kLeastGain = 1.1;  // smaller gains are within the error of the estimates
  std::size_t best = 0;
  double best_gain = kLeastGain;
  double expected = 1;  // tokens of a step
  double reached = 1;   // probability that all draft tokens so far are accepted
  for (std::size_t i = 0; i < std::min(acceptance.size(), costs.size()); ++i) {
    reached *= acceptance[i];
    expected += reached;
    const double gain = expected / costs[i];
    if (gain <= best_gain) continue;
    best = i + 1;
    best_gain = gain;
  }
  return best;
}

Repetition find_repetition(std::span<const int> tokens) {
  Repetition best;
  if (tokens.size() < 2) return best;
  const std::size_t end = tokens.size() - 1;
  for (std::size_t at = end; at-- > 0 && best.length < Repetition::kLongest;) {
    if (tokens[at] != tokens[end]) continue;
    std::size_t length = 1;
    while (length < Repetition::kLongest && length <= at && tokens[at - length] == tokens[end - length]) ++length;
    if (length > best.length) best = {.next = at + 1, .length = length};
  }
  return best;
}

void check_draft_tokens(std::size_t most_tokens) {
  if (most_tokens <= kMostTokens) return;
  throw Error("draft tokens",
              "are " + std::to_string(most_tokens) + ", must be at most " + std::to_string(kMostTokens));
}

// The initial rates are guesses: for repetitions of 1 to 8 tokens, and for a draft model.
Speculation::Speculation(std::size_t most_tokens, DraftModel* draft_model)
    : most_tokens_(most_tokens),
      draft_model_(draft_model),
      repetition_rates_{AcceptanceRate(0.15), AcceptanceRate(0.35), AcceptanceRate(0.5), AcceptanceRate(0.6),
                        AcceptanceRate(0.7),  AcceptanceRate(0.75), AcceptanceRate(0.8), AcceptanceRate(0.85)},
      draft_model_rate_(0.75),
      costs_(most_tokens) {
  repeated_.reserve(most_tokens);
  modelled_.reserve(most_tokens);
  draft_.reserve(most_tokens);
  acceptance_.reserve(most_tokens);
  draft_costs_.reserve(most_tokens);
}

/// Drafts the tokens that followed an earlier occurrence of the text's end.
void Speculation::look_up(std::span<const int> tokens) {
  repeated_.clear();
  const Repetition repetition = find_repetition(tokens);
  if (repetition.length == 0) return;
  // At its end the repeated part continues with its own repetition.
  const std::size_t period = tokens.size() - repetition.next;
  for (std::size_t i = 0; i < most_tokens_; ++i) {
    repeated_.push_back(i < period ? tokens[repetition.next + i] : repeated_[i - period]);
  }
  repeated_length_ = repetition.length;
}

std::span<const int> Speculation::draft(std::span<const int> tokens, std::size_t limit) {
  draft_.clear();
  // Drafting starts when the cost of one token is known.
  const std::size_t most = costs_.known() ? std::min(most_tokens_, limit) : 0;
  look_up(tokens);
  if (!repeated_.empty()) {
    // Every accepted token makes the repetition longer, and the next one more likely.
    acceptance_.clear();
    for (std::size_t i = 0; i < most; ++i) acceptance_.push_back(rate_of(repeated_length_ + i).rate());
    const std::size_t count = worthwhile_tokens(acceptance_, costs_.of_drafts());
    draft_.assign(repeated_.begin(), repeated_.begin() + static_cast<std::ptrdiff_t>(count));
  }
  modelled_.clear();
  if (draft_.empty() && draft_model_ != nullptr && most > 0) ask_draft_model(tokens, most);
  return draft_;
}

void Speculation::ask_draft_model(std::span<const int> tokens, std::size_t most) {
  const double own_cost = draft_model_->token_seconds() / costs_.seconds();
  draft_costs_.clear();
  for (const double cost : costs_.of_drafts().first(most)) {
    draft_costs_.push_back(cost + own_cost * static_cast<double>(draft_costs_.size() + 1));
  }
  acceptance_.assign(most, draft_model_rate_.rate());
  const std::size_t count = worthwhile_tokens(acceptance_, draft_costs_);
  if (count == 0) return draft_model_rate_.forget_a_little();
  draft_model_->continue_text(tokens, count, modelled_);
  draft_ = modelled_;
}

void Speculation::measure_step(std::size_t draft_tokens, double seconds) {
  costs_.measure(draft_tokens, seconds);
}

void Speculation::observe(int token) {
  const auto compare = [token](std::vector<int>& expected, AcceptanceRate& rate) {
    if (expected.empty()) return;
    const bool accepted = expected.front() == token;
    rate.count(accepted);
    if (accepted) {
      expected.erase(expected.begin());
    } else {
      expected.clear();
    }
  };
  if (!repeated_.empty()) compare(repeated_, rate_of(repeated_length_++));
  compare(modelled_, draft_model_rate_);
}

}  // namespace ballast::engine
