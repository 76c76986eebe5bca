// Logits of a text's chunks, a few rows at a time, so that a vocabulary's width times a text is never in memory.
#ifndef BALLAST_EVAL_SCORER_H_
#define BALLAST_EVAL_SCORER_H_

#include <cstddef>
#include <span>
#include <vector>

#include "model/model.h"

namespace ballast::eval {

/// Runs one sequence at a time through a model from an empty cache.
class ChunkRunner {
 public:
  ChunkRunner(model::Model& model, std::size_t capacity);

  /// Last block's output for all of `ids`, [ids.size()][hidden_size], kept until the next call.
  std::span<const float> run(std::span<const int> ids);

  /// logits [count][vocab_size] of positions first ... of the last run, kept until the next call.
  std::span<const float> logits(std::size_t first, std::size_t count);

 private:
  model::Model& model_;
  model::KeyValueCache cache_;
  std::vector<float> hidden_;
  std::vector<float> logits_;
};

/// Positions whose logits are computed at once.
inline constexpr std::size_t kLogitRows = 128;

}  // namespace ballast::eval

#endif  // BALLAST_EVAL_SCORER_H_
