// Where in a text predictions go wrong: by position, and the worst ones.
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

/// scores: [chunks.count()][chunks.positions()]. At most 16 ranges; the last takes what is left.
std::vector<PositionRange> position_ranges(const TextChunks& chunks, std::span<const TokenScore> scores,
                                           bool has_reference);

/// The `count` largest divergences; the earlier position first where they are equal.
std::vector<DivergentToken> most_divergent(const TextChunks& chunks, std::span<const TokenScore> scores,
                                           std::size_t count, const text::Tokenizer& tokenizer);

}  // namespace ballast::eval

#endif  // BALLAST_EVAL_POSITION_SCORES_H_
