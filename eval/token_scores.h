// Scores of predictions, and the figures computed from them.
#ifndef BALLAST_EVAL_TOKEN_SCORES_H_
#define BALLAST_EVAL_TOKEN_SCORES_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ballast/evaluate.h"

namespace ballast::eval {

/// The score of one position. Fields about a reference, and the top token, are 0 without one.
struct TokenScore {
  double nll = 0;  ///< of the next token, nats
  double reference_nll = 0;
  double kl = 0;                   ///< KL(reference || model), nats
  double top_log_probability = 0;  ///< of the model's most likely token
  double reference_top_log_probability = 0;
  int top = 0;  ///< id of the model's most likely token
  int reference_top = 0;
};

/// Scores rows of logits [targets.size()][vocab_size]; `targets` are the next tokens. reference is null or has the same
/// shape. Returns false if a score is not finite.
bool score_rows(std::span<const int> targets, const float* logits, const float* reference, std::size_t vocab_size,
                TokenScore* dst);

double perplexity(std::span<const TokenScore> scores);
double reference_perplexity(std::span<const TokenScore> scores);
double mean_divergence(std::span<const TokenScore> scores);

/// Sets the figures of an evaluation from `scores`, which are not empty; the reference's figures if there is one.
void summarize(std::span<const TokenScore> scores, bool has_reference, Evaluation& evaluation);

/// Returns at most 50 segments of a stream.
std::vector<StreamSegment> stream_segments(std::span<const TokenScore> scores, bool has_reference);

}  // namespace ballast::eval

#endif  // BALLAST_EVAL_TOKEN_SCORES_H_
