// Scores of the tokens of a given text.
#ifndef BALLAST_ENGINE_PROMPT_SCORER_H_
#define BALLAST_ENGINE_PROMPT_SCORER_H_

#include <cstddef>
#include <exception>
#include <span>
#include <vector>

#include "ballast/generate.h"
#include "engine/sequence.h"

namespace ballast::engine {

/// Computes log-probabilities of a prompt's tokens from the logits of each step.
class PromptScorer : public LogitsReader {
 public:
  /// `ranks`: also sets GeneratedToken::rank.
  PromptScorer(std::span<const int> prompt, std::size_t top, std::size_t vocab_size, bool ranks = false)
      : prompt_(prompt), top_(top), vocab_size_(vocab_size), ranks_(ranks), scores_(prompt.size() - 1) {}

  /// Sets that the next step's first wanted row belongs to the prompt's token `position`.
  void begin_at(std::size_t position) { position_ = position; }
  void read(std::size_t first, std::span<const float> rows) override;

  /// Is called after the step. Throws Error if logits were not finite.
  void check() const;
  std::vector<GeneratedToken>& scores() { return scores_; }

 private:
  std::span<const int> prompt_;
  std::size_t top_;
  std::size_t vocab_size_;
  bool ranks_;
  std::size_t position_ = 0;
  std::vector<GeneratedToken> scores_;  ///< for prompt[1] and later
  std::exception_ptr failure_;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_PROMPT_SCORER_H_
