#include "eval/scorer.h"

namespace ballast::eval {

bool SequenceRunner::restore(const model::SequenceState::Snapshot& snapshot) {
  if (snapshot.length > state_.length() || !state_.can_restore(snapshot)) return false;
  state_.restore(snapshot);
  return true;
}

void SequenceRunner::read_source(const model::TokenSpan& text) {
  state_.set_source(model_.encode({&text, 1}, state_.cache().type(), workspace_).front());
}

void SequenceRunner::run_chunk(const TextChunks& chunks, std::size_t index) {
  restart();
  if (model_.spec().encoder) read_source(chunks.source(index));
  run(chunks.chunk(index));
}

std::span<const float> SequenceRunner::run(const model::TokenSpan& tokens) {
  const model::SequenceTokens sequence = {.tokens = tokens, .state = &state_, .wanted = tokens.size()};
  const std::span<const float> hidden = model_.forward({&sequence, 1}, workspace_);
  hidden_.assign(hidden.begin(), hidden.end());
  return hidden_;
}

std::span<const float> SequenceRunner::logits(std::size_t first, std::size_t count) {
  logits_.resize(count * model_.spec().vocab_size);
  const model::AdapterPart* const adapter = state_.head_adapter();
  const model::StepRows rows(std::span(&count, 1), std::span(&adapter, 1));
  model_.logits(hidden_.data() + first * model_.spec().hidden_size, rows, logits_.data(), workspace_);
  return logits_;
}

}  // namespace ballast::eval
