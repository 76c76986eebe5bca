// Scores by position in a text, and the worst predictions.
#ifndef BALLAST_EVAL_POSITION_SCORES_H_
#define BALLAST_EVAL_POSITION_SCORES_H_

#include <cstddef>
#include <span>
#include <vector>

#include "ballast/evaluate.h"
#include "eval/text_chunks.h"
#include "eval/token_scores.h"
#include "text/tokenizer.h"

namespace ballast::eval {

/// Returns at most 16 ranges; the last includes the rest. scores: [chunks.count()][chunks.positions()].
std::vector<PositionRange> position_ranges(const TextChunks& chunks, std::span<const TokenScore> scores,
                                           bool has_reference);

/// Returns the `count` largest divergences; the earlier position is first if they are equal.
std::vector<DivergentToken> most_divergent(const TextChunks& chunks, std::span<const TokenScore> scores,
                                           std::size_t count, const text::Tokenizer& tokenizer);

}  // namespace ballast::eval

#endif  // BALLAST_EVAL_POSITION_SCORES_H_
