// What a model says of the tokens of a text that is given.
#ifndef BALLAST_ENGINE_PROMPT_SCORER_H_
#define BALLAST_ENGINE_PROMPT_SCORER_H_

#include <cstddef>
#include <exception>
#include <span>
#include <vector>

#include "ballast/generate.h"
#include "engine/sequence.h"

namespace ballast::engine {

/// Log-probabilities of a prompt's tokens, taken from logits as they are computed.
class PromptScorer : public LogitsReader {
 public:
  /// `ranks`: says GeneratedToken::rank, too.
  PromptScorer(std::span<const int> prompt, std::size_t top, std::size_t vocab_size, bool ranks = false)
      : prompt_(prompt), top_(top), vocab_size_(vocab_size), ranks_(ranks), scores_(prompt.size() - 1) {}

  /// The next step's first wanted row is that of the prompt's token `position`.
  void begin_at(std::size_t position) { position_ = position; }
  void read(std::size_t first, std::span<const float> rows) override;

  /// After the step. Throws Error where logits were not finite.
  void check() const;
  std::vector<GeneratedToken>& scores() { return scores_; }

 private:
  std::span<const int> prompt_;
  std::size_t top_;
  std::size_t vocab_size_;
  bool ranks_;
  std::size_t position_ = 0;
  std::vector<GeneratedToken> scores_;  ///< of prompt[1] and on
  std::exception_ptr failure_;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_PROMPT_SCORER_H_
