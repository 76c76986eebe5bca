#include "engine/text_drafts.h"

namespace ballast::engine {

void AcceptanceRate::count(bool accepted) {
  constexpr double kWeight = 1.0 / 8;  // of the latest token
  rate_ += kWeight * ((accepted ? 1.0 : 0.0) - rate_);
}

void AcceptanceRate::forget_a_little() {
  constexpr double kForgotten = 1.0 / 128;
  rate_ += kForgotten * (expected_ - rate_);
}

// The initial rates are guesses: for repetitions of 1 to 8 tokens, for the text that a constraint forces, whose tokens
// may be others, and for a draft model.
TextDrafts::TextDrafts(std::size_t most_tokens)
    : most_tokens_(most_tokens),
      repetition_rates_{AcceptanceRate(0.15), AcceptanceRate(0.35), AcceptanceRate(0.5), AcceptanceRate(0.6),
                        AcceptanceRate(0.7),  AcceptanceRate(0.75), AcceptanceRate(0.8), AcceptanceRate(0.85)},
      forced_rate_(0.9),
      modelled_rate_(0.75) {
  for (std::vector<int>* tokens : {&repeated_, &forced_, &modelled_, &draft_}) tokens->reserve(most_tokens);
  acceptance_.reserve(most_tokens);
}

void TextDrafts::find_repeated(std::span<const int> tokens) {
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

void TextDrafts::look_up(std::span<const int> tokens, std::span<const int> forced, std::size_t limit) {
  draft_.clear();
  modelled_.clear();
  acceptance_.clear();
  forced = forced.first(std::min(forced.size(), most_tokens_));
  forced_.assign(forced.begin(), forced.end());
  find_repeated(tokens);
  const std::size_t count = std::min(limit, forced_.empty() ? repeated_.size() : forced_.size());
  for (std::size_t i = 0; i < count; ++i) {
    // Every accepted token makes the repetition longer, and the next one more likely.
    acceptance_.push_back((forced_.empty() ? rate_of(repeated_length_ + i) : forced_rate_).rate());
  }
}

void TextDrafts::take(std::size_t count) {
  const std::vector<int>& offered = forced_.empty() ? repeated_ : forced_;
  draft_.assign(offered.begin(), offered.begin() + static_cast<std::ptrdiff_t>(count));
}

void TextDrafts::offer_modelled(std::size_t limit) {
  acceptance_.assign(std::min(limit, most_tokens_), modelled_rate_.rate());
}

void TextDrafts::take_modelled(std::span<const int> tokens) {
  modelled_.assign(tokens.begin(), tokens.end());
  draft_ = modelled_;
}

void TextDrafts::observe(int token) {
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
  compare(forced_, forced_rate_);
  compare(modelled_, modelled_rate_);
}

}  // namespace ballast::engine
