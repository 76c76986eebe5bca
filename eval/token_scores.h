// What is known about each prediction, and figures made of them.
#ifndef BALLAST_EVAL_TOKEN_SCORES_H_
#define BALLAST_EVAL_TOKEN_SCORES_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ballast/evaluate.h"

namespace ballast::eval {

/// One position. What speaks of a reference, and the top token, is 0 without one.
struct TokenScore {
  double nll = 0;  ///< of the token that follows, nats
  double reference_nll = 0;
  double kl = 0;                   ///< KL(reference || model), nats
  double top_log_probability = 0;  ///< of the model's most likely token
  double reference_top_log_probability = 0;
  int top = 0;  ///< id of the model's most likely token
  int reference_top = 0;
};

/// Scores rows of logits, [targets.size()][vocab_size]; `targets` are the tokens that follow. reference is null or has
/// the same shape. Returns false when a score is not finite.
bool score_rows(std::span<const int> targets, const float* logits, const float* reference, std::size_t vocab_size,
                TokenScore* dst);

double perplexity(std::span<const TokenScore> scores);
double reference_perplexity(std::span<const TokenScore> scores);
double mean_divergence(std::span<const TokenScore> scores);

/// Fills in what an evaluation says of `scores`, which are not empty; the reference's figures where there is one.
void summarize(std::span<const TokenScore> scores, bool has_reference, Evaluation& evaluation);

/// Stretches of a stream, at most 50.
std::vector<StreamSegment> stream_segments(std::span<const TokenScore> scores, bool has_reference);

}  // namespace ballast::eval

#endif  // BALLAST_EVAL_TOKEN_SCORES_H_
