// The draft tokens of one text: what may follow, and how likely that is.
#ifndef BALLAST_ENGINE_TEXT_DRAFTS_H_
#define BALLAST_ENGINE_TEXT_DRAFTS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/repetition.h"

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

/// Looks up drafts of one text in what it repeats and in what its constraint forces, takes those of a draft model, and
/// learns from the chosen tokens how often each kind is right. No function allocates memory.
class TextDrafts {
 public:
  explicit TextDrafts(std::size_t most_tokens);

  /// Offers tokens that may follow `tokens`, at most `limit`: those that the constraint forces, else those that
  /// followed an earlier occurrence of the text's end.
  void look_up(std::span<const int> tokens, std::span<const int> forced, std::size_t limit);

  /// Offers at most `limit` tokens of a draft model, which are not drafted yet.
  void offer_modelled(std::size_t limit);

  /// Returns the probability that each offered token is accepted once those before it were.
  std::span<const double> acceptance() const { return acceptance_; }

  /// Drafts the first `count` of the tokens that look_up() offered.
  void take(std::size_t count);

  /// Sets the draft to the tokens of a draft model.
  void take_modelled(std::span<const int> tokens);

  /// Drafts nothing, although a draft model was offered.
  void skip_modelled() { modelled_rate_.forget_a_little(); }

  /// Keeps only the first `count` tokens of the draft.
  void cut(std::size_t count) { draft_.resize(std::min(count, draft_.size())); }

  std::span<const int> draft() const { return draft_; }

  /// Records a token that the model chose.
  void observe(int token);

 private:
  void find_repeated(std::span<const int> tokens);

  /// Returns the rate of drafts after a repetition of `length` tokens.
  AcceptanceRate& rate_of(std::size_t length) { return repetition_rates_[std::min(length, Repetition::kLongest) - 1]; }

  std::size_t most_tokens_;
  // Tokens of each source that are not compared with the text yet.
  std::vector<int> repeated_;
  std::vector<int> forced_;
  std::vector<int> modelled_;
  std::size_t repeated_length_ = 0;  ///< length of the repetition, with the accepted tokens after it
  std::vector<int> draft_;
  std::vector<double> acceptance_;
  std::array<AcceptanceRate, Repetition::kLongest> repetition_rates_;
  AcceptanceRate forced_rate_;
  AcceptanceRate modelled_rate_;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_TEXT_DRAFTS_H_
