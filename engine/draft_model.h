// A small model that drafts what a larger one of the same vocabulary may say.
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

/// Follows one text. Belongs to one thread at a time.
class DraftModel {
 public:
  /// model and engine must outlive it; ids from vocab_size on are not drafted.
  DraftModel(const model::Model& model, Engine& engine, std::size_t vocab_size)
      : model_(model), engine_(engine), vocab_size_(std::min(vocab_size, model.spec().vocab_size)) {}

  /// The cache for what comes next. Throws Error when the model cannot be run so.
  void use_cache(const CacheOptions& options);

  /// drafted = the likeliest continuation of `tokens`: `count` tokens, or fewer where its context ends.
  void continue_text(std::span<const int> tokens, std::size_t count, std::vector<int>& drafted);

  /// What a drafted token takes; 0 before the first one.
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
