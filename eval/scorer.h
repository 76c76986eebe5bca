// Logits of a text's chunks, computed a few rows at a time, so that those of a whole text are never in memory.
#ifndef BALLAST_EVAL_SCORER_H_
#define BALLAST_EVAL_SCORER_H_

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "eval/text_chunks.h"
#include "model/model.h"

namespace ballast::eval {

/// Runs sequences one after the other through a model.
class SequenceRunner {
 public:
  SequenceRunner(const model::Model& model, model::SequenceState state) : model_(model), state_(std::move(state)) {}

  /// Begins a new sequence.
  void restart() { state_.truncate(0); }

  /// Sets the source text of the next sequences. Precondition: the model has an encoder.
  void read_source(const model::TokenSpan& text);

  /// Begins a new sequence of a chunk's tokens, after the chunk's source text if the model has an encoder.
  void run_chunk(const TextChunks& chunks, std::size_t index);

  /// Returns the current position of the sequence.
  model::SequenceState::Snapshot snapshot() const { return state_.snapshot(); }

  /// Returns to a snapshot, after which the next tokens continue. Returns false, and does nothing, if its keys and
  /// values are not all in the cache any more.
  bool restore(const model::SequenceState::Snapshot& snapshot);

  /// Continues the sequence. Returns the last block's output for all of `tokens`, [tokens.size()][hidden_size], valid
  /// until the next call.
  std::span<const float> run(const model::TokenSpan& tokens);

  /// Returns logits [count][vocab_size] of positions first ... of the last run, valid until the next call.
  std::span<const float> logits(std::size_t first, std::size_t count);

  const model::SequenceState& state() const { return state_; }

 private:
  const model::Model& model_;
  model::Workspace workspace_;
  model::SequenceState state_;
  std::vector<float> hidden_;
  std::vector<float> logits_;
};

}  // namespace ballast::eval

#endif  // BALLAST_EVAL_SCORER_H_
