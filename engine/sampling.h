// The choice of the next token from a row of logits.
#ifndef BALLAST_ENGINE_SAMPLING_H_
#define BALLAST_ENGINE_SAMPLING_H_

#include <array>
#include <cstddef>
#include <random>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ballast/generate.h"

namespace ballast::engine {

/// Throws Error when logits are NaN or infinite.
void require_finite(std::span<const float> logits);

/// Picks tokens as GenerateOptions says. Logits are adjusted first (bias, then the repetition, frequency and presence
/// penalties, then tokens that must not come); then temperature, top-k, top-p (over what top-k left) and min-p, in the
/// order of Hugging Face's transformers. The same seed and logits give the same tokens on
/// every machine that uses the same instruction set: exponentials round differently on others, and no distribution of
/// the standard library takes part, whose results differ between implementations.
class Sampler {
 public:
  /// Throws Error when an option is out of its range.
  explicit Sampler(const GenerateOptions& options);

  /// Counts a token of the prompt as seen, for the repetition penalty.
  void remember(int token);

  /// These are not chosen before GenerateOptions::min_tokens tokens were.
  void forbid_at_first(std::vector<int> tokens) { forbidden_at_first_ = std::move(tokens); }

  /// The next token; it is remembered. Throws Error when the logits are NaN or infinite.
  int sample(std::span<const float> logits);

  /// Tokens back to which the repetition penalty looks.
  static constexpr std::size_t kPenaltyWindow = 64;

 private:
  struct Candidate {
    float logit;
    float weight;  ///< proportional to its probability, 1 for the likeliest
    int token;
  };

  bool adjusts() const;
  std::span<const float> adjusted(std::span<const float> logits);
  void penalize_repetition();
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
  std::size_t min_tokens_;
  std::vector<int> forbidden_at_first_;
  std::mt19937_64 random_;
  std::array<int, kPenaltyWindow> recent_{};           ///< in a ring
  std::size_t remembered_ = 0;                         ///< in all
  std::size_t chosen_ = 0;                             ///< tokens, in all
  std::unordered_map<int, std::size_t> times_chosen_;  ///< where a penalty asks for it
  std::vector<float> adjusted_;
  std::vector<float> weights_;  ///< of all tokens, like Candidate::weight
  std::vector<double> sums_;    ///< of kernels::kWeightBlock weights each
  std::vector<Candidate> candidates_;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_SAMPLING_H_
