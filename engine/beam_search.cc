#include "engine/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/sampling.h"
#include "kernels/logits.h"

namespace ballast::engine {

namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

/// Returns the tokens of start and beam.
std::vector<int> whole_text(std::span<const int> start, std::span<const int> tokens) {
  std::vector<int> whole(start.begin(), start.end());
  whole.insert(whole.end(), tokens.begin(), tokens.end());
  return whole;
}

}  // namespace

BeamSearch::BeamSearch(const TranslateOptions& options, std::span<const int> start, std::span<const int> ends,
                       std::size_t most_tokens)
    : options_(&options),
      start_(start.begin(), start.end()),
      ends_(ends.begin(), ends.end()),
      most_tokens_(most_tokens),
      // If all beams' best tokens end a text, as many are left to go on.
      candidates_at_once_(options.beams == 1 ? 1 : std::max<std::size_t>(2, 1 + ends.size()) * options.beams),
      beams_(1) {}

bool BeamSearch::is_end(int token) const {
  return std::ranges::find(ends_, token) != ends_.end();
}

float BeamSearch::divided_by_length(float score, std::size_t tokens) const {
  return score / static_cast<float>(std::pow(static_cast<double>(tokens), options_->length_penalty));
}

void BeamSearch::forbid(int token) {
  if (token >= 0 && static_cast<std::size_t>(token) < scores_.size()) {
    scores_[static_cast<std::size_t>(token)] = kExcluded;
  }
}

void BeamSearch::force(int token) {
  std::ranges::fill(scores_, kExcluded);
  scores_[static_cast<std::size_t>(token)] = 0;
}

void BeamSearch::penalize_repetition(const Beam& beam) {
  std::vector<int> seen = whole_text(start_, beam.tokens);
  std::ranges::sort(seen);
  seen.erase(std::ranges::unique(seen).begin(), seen.end());
  const auto penalty = static_cast<float>(options_->repetition_penalty);
  for (const int token : seen) {
    float& score = scores_[static_cast<std::size_t>(token)];
    score = score < 0 ? score * penalty : score / penalty;
  }
}

void BeamSearch::forbid_repeated_sequences(const Beam& beam) {
  const std::size_t size = options_->no_repeat_ngram;
  const std::vector<int> text = whole_text(start_, beam.tokens);
  if (text.size() + 1 < size) return;
  const std::span<const int> last = std::span(text).last(size - 1);
  for (std::size_t i = 0; i + size <= text.size(); ++i) {
    const std::span<const int> earlier = std::span(text).subspan(i, size);
    if (std::ranges::equal(earlier.first(size - 1), last)) forbid(earlier.back());
  }
}

void BeamSearch::forbid_sequences(const Beam& beam) {
  const std::vector<int> text = whole_text(start_, beam.tokens);
  for (const std::vector<int>& sequence : options_->forbidden_sequences) {
    const std::span<const int> before = std::span(sequence).first(sequence.size() - 1);
    if (before.size() > text.size() || !std::ranges::equal(before, std::span(text).last(before.size()))) continue;
    forbid(sequence.back());
  }
}

/// Returns whether the options change any log-probability of the tokens after a beam with `tokens` of them.
bool BeamSearch::changes_scores(std::size_t tokens) const {
  return options_->repetition_penalty != 1 || options_->no_repeat_ngram > 0 || !options_->forbidden_sequences.empty() ||
         tokens < options_->min_tokens || tokens < options_->first_tokens.size() ||
         (options_->last_token && tokens + 1 == most_tokens_);
}

/// Computes the log-probabilities of the tokens after a beam, changed by the options.
void BeamSearch::score_tokens(const Beam& beam, std::span<const float> logits) {
  require_finite(logits);
  const auto sum = static_cast<float>(kernels::log_sum_exp(logits.data(), logits.size()));
  const std::size_t tokens = beam.tokens.size();
  next_ = {.scores = logits, .sum = sum};
  if (!changes_scores(tokens)) return;
  scores_.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) scores_[i] = logits[i] - sum;
  next_ = {.scores = scores_, .sum = 0};
  if (options_->repetition_penalty != 1) penalize_repetition(beam);
  if (options_->no_repeat_ngram > 0) forbid_repeated_sequences(beam);
  if (!options_->forbidden_sequences.empty()) forbid_sequences(beam);
  if (tokens < options_->min_tokens) {
    for (const int end : ends_) forbid(end);
  }
  if (tokens < options_->first_tokens.size()) force(options_->first_tokens[tokens]);
  if (options_->last_token && tokens + 1 == most_tokens_) force(*options_->last_token);
  if (!options_->renormalize || std::ranges::max(scores_) == kExcluded) return;
  const auto rest = static_cast<float>(kernels::log_sum_exp(scores_.data(), scores_.size()));
  for (float& score : scores_) score -= rest;
}

/// Adds the best tokens after a beam, of which score_tokens() has computed the scores.
void BeamSearch::add_candidates(std::size_t beam) {
  constexpr std::size_t kBlock = 512;
  const float before = beams_[beam].score;
  const auto score_of = [&](std::size_t token) { return before + (next_.scores[token] - next_.sum); };
  const auto is_full = [&] { return candidates_.size() == candidates_at_once_; };
  const auto is_candidate = [&](float score) {
    return score != kExcluded && (!is_full() || score > candidates_.back().score);
  };
  const auto better = [](const Candidate& a, const Candidate& b) { return a.score > b.score; };
  for (std::size_t begin = 0; begin < next_.scores.size(); begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, next_.scores.size());
    const std::size_t best = begin + kernels::argmax(next_.scores.data() + begin, end - begin);
    if (!is_candidate(score_of(best))) continue;  // nor is any other of the block
    for (std::size_t token = begin; token < end; ++token) {
      const float score = score_of(token);
      if (!is_candidate(score)) continue;
      const Candidate candidate = {.score = score, .beam = beam, .token = static_cast<int>(token)};
      if (is_full()) candidates_.pop_back();
      candidates_.insert(std::ranges::upper_bound(candidates_, candidate, better), candidate);
    }
  }
}

void BeamSearch::keep_complete(const Candidate& candidate) {
  WrittenText text;
  text.tokens = beams_[candidate.beam].tokens;
  text.tokens.push_back(candidate.token);
  text.score = double{divided_by_length(candidate.score, text.tokens.size())};
  const auto place =
      std::ranges::find_if(complete_, [&](const WrittenText& other) { return text.score > other.score; });
  complete_.insert(place, std::move(text));
  if (complete_.size() > options_->beams) complete_.pop_back();
}

void BeamSearch::choose_greedily() {
  const Candidate& best = candidates_.front();
  Beam& beam = beams_.front();
  if (is_end(best.token) || beam.tokens.size() + 1 == most_tokens_) {
    keep_complete(best);
    ended_ = true;
    return;
  }
  beam.tokens.push_back(best.token);
  beam.score = best.score;
}

/// Returns whether a beam may still become better than the worst complete text.
bool BeamSearch::can_improve() const {
  if (complete_.size() < options_->beams) return true;
  const bool by_any_length =
      options_->early_stop == TranslateOptions::EarlyStop::kNever && options_->length_penalty > 0;
  const float best = divided_by_length(beams_.front().score, by_any_length ? most_tokens_ : length());
  return double{best} > complete_.back().score;
}

void BeamSearch::choose_beams() {
  const bool last = length() + 1 == most_tokens_;
  const bool is_full = options_->early_stop == TranslateOptions::EarlyStop::kYes && complete_.size() == options_->beams;
  std::vector<Beam> next;
  std::vector<const Candidate*> ending;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const Candidate& candidate = candidates_[i];
    if (last || is_end(candidate.token)) {
      // The others are there so that enough go on.
      if (i < options_->beams && !is_full) ending.push_back(&candidate);
      continue;
    }
    if (next.size() == options_->beams) continue;
    Beam& beam = next.emplace_back();
    beam.parent = candidate.beam;
    beam.tokens = beams_[candidate.beam].tokens;
    beam.tokens.push_back(candidate.token);
    beam.score = candidate.score;
  }
  for (const Candidate* candidate : ending) keep_complete(*candidate);
  if (next.empty()) {
    ended_ = true;
    return;
  }
  beams_ = std::move(next);
  const bool enough = complete_.size() == options_->beams && options_->early_stop == TranslateOptions::EarlyStop::kYes;
  ended_ = enough || !can_improve();
}

void BeamSearch::advance(std::span<const std::span<const float>> logits) {
  candidates_.clear();
  for (std::size_t beam = 0; beam < beams_.size(); ++beam) {
    score_tokens(beams_[beam], logits[beam]);
    add_candidates(beam);
  }
  if (candidates_.empty()) {
    throw NoTokenError("options", "allow no token after " + std::to_string(length()) + " of a text");
  }
  if (options_->beams == 1) {
    choose_greedily();
  } else {
    choose_beams();
  }
}

std::vector<WrittenText> BeamSearch::results() const {
  std::vector<WrittenText> texts = complete_;
  if (texts.size() > options_->hypotheses) texts.resize(options_->hypotheses);
  return texts;
}

}  // namespace ballast::engine
