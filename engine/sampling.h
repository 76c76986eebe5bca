// Sampling of the next token from a row of logits.
#ifndef BALLAST_ENGINE_SAMPLING_H_
#define BALLAST_ENGINE_SAMPLING_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "ballast/generate.h"
#include "engine/token_counts.h"

namespace ballast::engine {

/// The options of a text allow no token at a position: the constraint, the allowed tokens, the forbidden words and
/// min_tokens exclude all, or the vocabulary cannot write what the constraint needs.
class NoTokenError : public Error {
 public:
  using Error::Error;
};

/// Throws Error when logits are NaN or infinite.
void require_finite(std::span<const float> logits);

/// Samples tokens according to GenerateOptions. Logits are adjusted first (bias, then the repetition, frequency and
/// presence penalties, then forbidden and not allowed tokens, and those that a constraint forbids); then temperature,
/// top-k, top-p (over what top-k left) and min-p, in the order of Hugging Face's transformers. The same seed and logits
/// give the same tokens on every machine that uses the same instruction set: exponentials round differently on others,
/// and the standard library's distributions are not used, because their results differ between implementations.
class Sampler {
 public:
  /// Throws Error when an option is out of its range.
  explicit Sampler(const GenerateOptions& options);

  /// Counts tokens of the prompt, for the penalties.
  void see(std::span<const int> prompt);

  /// Forbids these tokens until GenerateOptions::min_tokens tokens were chosen. Throws Error if no other token is
  /// allowed.
  void forbid_at_first(std::vector<int> tokens);

  /// Samples and records the next token. `mask` has a bit for each token that a constraint allows
  /// (ConstraintMatcher::allowed()); empty: all. Throws Error if the logits are NaN or infinite, and NoTokenError.
  int sample(std::span<const float> logits, std::span<const std::uint32_t> mask = {});

 private:
  struct Candidate {
    float logit;
    float weight;  ///< proportional to its probability, 1 for the most likely token
    int token;
  };

  /// Returns whether presence or frequency penalties count tokens.
  bool counts_tokens() const { return presence_penalty_ != 0 || frequency_penalty_ != 0; }
  /// Returns whether a penalty counts the tokens of prompt and answer together.
  bool counts_seen() const { return repetition_penalty_ != 1 || (has_window_ && counts_tokens()); }
  bool adjusts() const;
  void remember(int token);
  std::span<const float> adjusted(std::span<const float> logits, std::span<const std::uint32_t> mask);
  void keep_masked(std::span<const float> logits, std::span<const std::uint32_t> mask);
  void penalize();
  void require_allowed(std::span<const int> forbidden) const;
  void forbid(int token);
  void forbid_sequences();
  void keep_allowed();
  int draw(std::span<const float> logits, float largest);
  int draw_of_all(double total);
  std::span<const float> weights_of(std::size_t block) const;
  void collect_candidates(std::span<const float> logits, double total);
  void keep_likeliest(double total);
  double candidate_sum() const;
  int draw_candidate();

  double temperature_;
  std::size_t top_k_;
  double top_p_;
  double min_p_;
  double repetition_penalty_;
  double presence_penalty_;
  double frequency_penalty_;
  std::vector<LogitBias> logit_bias_;
  std::vector<int> allowed_tokens_;
  std::vector<std::vector<int>> forbidden_sequences_;
  std::size_t min_tokens_;
  std::vector<int> forbidden_at_first_;
  std::mt19937_64 random_;
  bool has_window_;               ///< all penalties count seen_
  TokenCounts seen_;              ///< tokens of prompt and answer, if a penalty needs them
  TokenCounts chosen_;            ///< tokens of the answer, if a penalty needs them
  std::size_t chosen_count_ = 0;  ///< number of tokens of the answer
  std::vector<int> answer_;       ///< only with forbidden sequences
  std::vector<float> adjusted_;
  std::vector<float> allowed_;  ///< adjusted logits of allowed_tokens_
  std::vector<float> weights_;  ///< of all tokens, as Candidate::weight
  std::vector<double> sums_;    ///< sums of kernels::kWeightBlock weights each
  std::vector<Candidate> candidates_;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_SAMPLING_H_
