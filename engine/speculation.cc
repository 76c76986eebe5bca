#include "engine/speculation.h"

#include <algorithm>
#include <string>

#include "ballast/error.h"

namespace ballast::engine {

namespace {

/// Weight of the latest figure in moving averages.
constexpr double kLatest = 1.0 / 8;

void move_average(double& average, double latest) {
  average += kLatest * (latest - average);
}

/// More are never right together, and their logits take memory.
constexpr std::size_t kMostTokens = 64;

/// Before anything is known: SmolLM2 and Qwen2.5-1.5B, INT4 and INT8, take 0.05 to 0.3.
constexpr double kExpectedTokenCost = 0.2;

}  // namespace

void AcceptanceRate::count(bool accepted) {
  move_average(rate_, accepted ? 1.0 : 0.0);
}

void AcceptanceRate::forget_a_little() {
  constexpr double kForgotten = 1.0 / 128;
  rate_ += kForgotten * (expected_ - rate_);
}

std::size_t worthwhile_tokens(double acceptance, double cost, std::size_t most) {
  constexpr double kLeastGain = 1.05;  // less is within what the estimates are off
  std::size_t best = 0;
  double best_gain = kLeastGain;
  double expected = 1;  // tokens of a step
  double reached = 1;   // that all draft tokens so far are accepted
  for (std::size_t count = 1; count <= most; ++count) {
    reached *= acceptance;
    expected += reached;
    const double gain = expected / (1 + cost * static_cast<double>(count));
    if (gain <= best_gain) continue;
    best = count;
    best_gain = gain;
  }
  return best;
}

Repetition find_repetition(std::span<const int> tokens) {
  Repetition best;
  if (tokens.size() <= Repetition::kShortest) return best;
  const std::size_t end = tokens.size() - 1;
  for (std::size_t at = end; at-- > 0 && best.length < Repetition::kLongest;) {
    if (tokens[at] != tokens[end]) continue;
    std::size_t length = 1;
    while (length < Repetition::kLongest && length <= at && tokens[at - length] == tokens[end - length]) ++length;
    if (length >= Repetition::kShortest && length > best.length) best = {.next = at + 1, .length = length};
  }
  return best;
}

// The rates are what is tried first: for repetitions of 2, 3 and 4 tokens, and for a draft model.
Speculation::Speculation(std::size_t most_tokens, DraftModel* draft_model)
    : most_tokens_(most_tokens),
      draft_model_(draft_model),
      repetition_rates_{AcceptanceRate(0.3), AcceptanceRate(0.5), AcceptanceRate(0.7)},
      draft_model_rate_(0.75),
      token_cost_(kExpectedTokenCost) {
  if (most_tokens > kMostTokens) {
    throw Error("draft tokens",
                "are " + std::to_string(most_tokens) + ", must be at most " + std::to_string(kMostTokens));
  }
  repeated_.reserve(most_tokens);
  modelled_.reserve(most_tokens);
  draft_.reserve(most_tokens);
}

/// Expects what followed the end of the text where it came before.
void Speculation::look_up(std::span<const int> tokens) {
  repeated_.clear();
  const Repetition repetition = find_repetition(tokens);
  if (repetition.length == 0) return;
  // At its end the text goes on with what it is about to repeat.
  const std::size_t period = tokens.size() - repetition.next;
  for (std::size_t i = 0; i < most_tokens_; ++i) {
    repeated_.push_back(i < period ? tokens[repetition.next + i] : repeated_[i - period]);
  }
  repeated_rate_ = &repetition_rates_[repetition.length - Repetition::kShortest];
}

std::span<const int> Speculation::draft(std::span<const int> tokens, std::size_t limit) {
  draft_.clear();
  // What one token costs has to be known first.
  const std::size_t most = step_seconds_ == 0 ? 0 : std::min(most_tokens_, limit);
  look_up(tokens);
  if (!repeated_.empty()) {
    const std::size_t count = worthwhile_tokens(repeated_rate_->rate(), token_cost_, most);
    draft_.assign(repeated_.begin(), repeated_.begin() + static_cast<std::ptrdiff_t>(count));
  }
  modelled_.clear();
  if (draft_.empty() && draft_model_ != nullptr && most > 0) ask_draft_model(tokens, most);
  return draft_;
}

void Speculation::ask_draft_model(std::span<const int> tokens, std::size_t most) {
  const double cost = token_cost_ + draft_model_->token_seconds() / step_seconds_;
  const std::size_t count = worthwhile_tokens(draft_model_rate_.rate(), cost, most);
  if (count == 0) return draft_model_rate_.forget_a_little();
  draft_model_->continue_text(tokens, count, modelled_);
  draft_ = modelled_;
}

void Speculation::measure_step(std::size_t draft_tokens, double seconds) {
  if (draft_tokens == 0) {
    if (step_seconds_ == 0) step_seconds_ = seconds;
    return move_average(step_seconds_, seconds);
  }
  const double cost = (seconds / step_seconds_ - 1) / static_cast<double>(draft_tokens);
  move_average(token_cost_, std::clamp(cost, 0.0, 1.0));  // a step that something else held up says nothing
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
  if (!repeated_.empty()) compare(repeated_, *repeated_rate_);
  compare(modelled_, draft_model_rate_);
}

}  // namespace ballast::engine
