#include "eval/scorer.h"

namespace ballast::eval {

// Keys and values stay in F32 here: what is compared is the weights and activations, not a cache.
ChunkRunner::ChunkRunner(model::Model& model, std::size_t capacity)
    : model_(model), cache_(model.make_cache(capacity, kernels::FloatType::kF32)) {}

std::span<const float> ChunkRunner::run(std::span<const int> ids) {
  cache_.truncate(0);
  const model::SequenceTokens sequence[] = {{ids, &cache_}};
  const std::span<const float> hidden = model_.forward(sequence);
  hidden_.assign(hidden.begin(), hidden.end());
  return hidden_;
}

std::span<const float> ChunkRunner::logits(std::size_t first, std::size_t count) {
  logits_.resize(count * model_.spec().vocab_size);
  model_.logits(hidden_.data() + first * model_.spec().hidden_size, count, logits_.data());
  return logits_;
}

}  // namespace ballast::eval
