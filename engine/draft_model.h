// A small model that drafts tokens for a larger model with the same vocabulary.
#ifndef BALLAST_ENGINE_DRAFT_MODEL_H_
#define BALLAST_ENGINE_DRAFT_MODEL_H_

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "ballast/cache.h"
#include "engine/engine.h"
#include "engine/sequence.h"
#include "model/model.h"

namespace ballast::engine {

/// Drafts for one text. Belongs to one thread at a time.
class DraftModel {
 public:
  /// model and engine must outlive this object; ids from vocab_size on are not drafted.
  DraftModel(const model::Model& model, Engine& engine, std::size_t vocab_size)
      : model_(model), engine_(engine), vocab_size_(std::min(vocab_size, model.spec().vocab_size)) {}

  /// Creates the cache. Throws Error if the model cannot be run with these options.
  void use_cache(const CacheOptions& options);

  /// Sets `drafted` to the most likely continuation of `tokens`: `count` tokens, or fewer at the end of the context.
  void continue_text(std::span<const int> tokens, std::size_t count, std::vector<int>& drafted);

  /// Returns the time of a drafted token; 0 before the first one.
  double token_seconds() const { return token_seconds_; }

 private:
  const model::Model& model_;
  Engine& engine_;
  std::size_t vocab_size_;
  std::optional<Sequence> sequence_;
  double token_seconds_ = 0;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_DRAFT_MODEL_H_
