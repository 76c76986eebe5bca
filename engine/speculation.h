// Speculative decoding: tokens are drafted, and one step of the model checks them together.
#ifndef BALLAST_ENGINE_SPECULATION_H_
#define BALLAST_ENGINE_SPECULATION_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/draft_model.h"

namespace ballast::engine {

/// Estimates how likely a draft token is accepted after those before it were: a moving average.
class AcceptanceRate {
 public:
  explicit AcceptanceRate(double expected) : expected_(expected), rate_(expected) {}

  double rate() const { return rate_; }
  void count(bool accepted);

  /// Moves the rate towards its initial value after a time without drafts, so that drafts are tried again.
  void forget_a_little();

 private:
  double expected_;
  double rate_;
};

/// Estimates the time of steps with drafts, relative to a step of one token, by their number of draft tokens: moving
/// averages. The first few drafts are nearly free if memory bandwidth is the limit, because the weights are read once
/// for all.
class StepCosts {
 public:
  explicit StepCosts(std::size_t most_tokens);

  bool known() const { return seconds_ != 0; }
  /// Returns the time of a step of one token, once known.
  double seconds() const { return seconds_; }
  /// of_drafts()[i] is the cost of i + 1 draft tokens.
  std::span<const double> of_drafts() const { return costs_; }

  void measure(std::size_t draft_tokens, double seconds);

 private:
  double seconds_ = 0;
  std::vector<double> costs_;
};

/// Returns the number of draft tokens that gives the most tokens per second; 0 if drafts do not help. acceptance[i] is
/// the probability that token i is accepted once those before it were, costs[i] the cost of a step with i + 1 of them.
std::size_t worthwhile_tokens(std::span<const double> acceptance, std::span<const double> costs);

/// An earlier occurrence of the last tokens.
struct Repetition {
  std::size_t next = 0;    ///< index of the token that followed them there
  std::size_t length = 0;  ///< tokens that are repeated, at most kLongest; 0: none

  static constexpr std::size_t kLongest = 8;
};

/// Returns the longest repetition of the end of `tokens`, of equally long ones the latest (prompt lookup decoding,
/// Saxena 2023).
Repetition find_repetition(std::span<const int> tokens);

/// Throws Error for more tokens than can be drafted at once: 64.
void check_draft_tokens(std::size_t most_tokens);

/// Drafts for one text, from its repetitions or by a draft model, as long as that is faster. The output remains the
/// model's: drafts only choose which tokens its next step runs in addition to the last one.
class Speculation {
 public:
  /// Drafts at most `most_tokens`; draft_model may be null. Precondition: check_draft_tokens(most_tokens).
  Speculation(std::size_t most_tokens, DraftModel* draft_model);

  /// Returns tokens that may follow `tokens`, at most `limit`. Valid until the next call.
  std::span<const int> draft(std::span<const int> tokens, std::size_t limit);

  /// Records the time of the model's last step with `draft_tokens` draft tokens.
  void measure_step(std::size_t draft_tokens, double seconds);

  /// Records a token that the model chose.
  void observe(int token);

 private:
  void look_up(std::span<const int> tokens);
  void ask_draft_model(std::span<const int> tokens, std::size_t most);

  /// Returns the rate of drafts after a repetition of `length` tokens.
  AcceptanceRate& rate_of(std::size_t length) { return repetition_rates_[std::min(length, Repetition::kLongest) - 1]; }

  std::size_t most_tokens_;
  DraftModel* draft_model_;
  std::vector<int> repeated_;        ///< drafts from the last repetition that are not compared yet
  std::size_t repeated_length_ = 0;  ///< length of that repetition, with the accepted tokens after it
  std::vector<int> modelled_;        ///< drafts of the draft model that are not compared yet
  std::vector<int> draft_;
  std::vector<double> acceptance_;   ///< of the tokens that may be drafted
  std::vector<double> draft_costs_;  ///< costs including the draft model's time
  std::array<AcceptanceRate, Repetition::kLongest> repetition_rates_;
  AcceptanceRate draft_model_rate_;
  StepCosts costs_;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_SPECULATION_H_
