// Speculative decoding: tokens drafted ahead of the text, which one step of the model checks together.
#ifndef BALLAST_ENGINE_SPECULATION_H_
#define BALLAST_ENGINE_SPECULATION_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/draft_model.h"

namespace ballast::engine {

/// How likely it is that a draft token is the one that the model chooses, after those before it were: a moving average.
class AcceptanceRate {
 public:
  explicit AcceptanceRate(double expected) : expected_(expected), rate_(expected) {}

  double rate() const { return rate_; }
  void count(bool accepted);

  /// Nothing is known of how it would have gone: the rate returns to what was expected, so that it is tried again.
  void forget_a_little();

 private:
  double expected_;
  double rate_;
};

/// What steps take that check drafts, in steps of one token, by their number of draft tokens: moving averages. The
/// first few are nearly free where memory decides, as the weights are read once for all.
class StepCosts {
 public:
  explicit StepCosts(std::size_t most_tokens);

  bool known() const { return seconds_ != 0; }
  /// Of a step of one token, once known.
  double seconds() const { return seconds_; }
  /// of_drafts()[i] is that of i + 1 draft tokens.
  std::span<const double> of_drafts() const { return costs_; }

  void measure(std::size_t draft_tokens, double seconds);

 private:
  double seconds_ = 0;
  std::vector<double> costs_;
};

/// The number of draft tokens with which steps give the most tokens a second; 0 when none is worth it. acceptance[i] is
/// how likely token i is right once those before it were, costs[i] what a step with i + 1 of them takes.
std::size_t worthwhile_tokens(std::span<const double> acceptance, std::span<const double> costs);

/// Where the last tokens came before.
struct Repetition {
  std::size_t next = 0;    ///< index of the token that followed them there
  std::size_t length = 0;  ///< of what is repeated, at most kLongest; 0: nothing

  static constexpr std::size_t kLongest = 8;
};

/// The longest repetition of the end of `tokens`, of equally long ones the latest (prompt lookup decoding, Saxena
/// 2023).
Repetition find_repetition(std::span<const int> tokens);

/// Throws Error when they are more than can be drafted at once: 64.
void check_draft_tokens(std::size_t most_tokens);

/// Drafts for one text, from what it repeats or by a draft model, as long as that pays. What is chosen stays the
/// model's: drafts only say which tokens its next step runs besides the last one.
class Speculation {
 public:
  /// Drafts at most `most_tokens`; draft_model may be null. Precondition: check_draft_tokens(most_tokens).
  Speculation(std::size_t most_tokens, DraftModel* draft_model);

  /// Tokens that may follow `tokens`, at most `limit`. Valid until the next call.
  std::span<const int> draft(std::span<const int> tokens, std::size_t limit);

  /// What the model's next step has taken, which ran so many draft tokens.
  void measure_step(std::size_t draft_tokens, double seconds);

  /// A token that the model chose.
  void observe(int token);

 private:
  void look_up(std::span<const int> tokens);
  void ask_draft_model(std::span<const int> tokens, std::size_t most);

  /// Of what follows a repetition of `length` tokens.
  AcceptanceRate& rate_of(std::size_t length) { return repetition_rates_[std::min(length, Repetition::kLongest) - 1]; }

  std::size_t most_tokens_;
  DraftModel* draft_model_;
  std::vector<int> repeated_;        ///< what may follow by the last repetition, not yet compared
  std::size_t repeated_length_ = 0;  ///< of that repetition, with what followed as expected
  std::vector<int> modelled_;        ///< by the draft model, not yet compared
  std::vector<int> draft_;
  std::vector<double> acceptance_;   ///< of the tokens that may be drafted
  std::vector<double> draft_costs_;  ///< of them with what the draft model takes
  std::array<AcceptanceRate, Repetition::kLongest> repetition_rates_;
  AcceptanceRate draft_model_rate_;
  StepCosts costs_;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_SPECULATION_H_
