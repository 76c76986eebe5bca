// A small model that drafts tokens for a larger model with the same vocabulary.
#ifndef BALLAST_ENGINE_DRAFT_MODEL_H_
#define BALLAST_ENGINE_DRAFT_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ballast/cache.h"
#include "engine/drafter.h"
#include "engine/loaded_model.h"
#include "engine/sequence.h"

namespace ballast::engine {

/// Drafts by a smaller model.
class DraftModel final : public Drafter {
 public:
  /// The models must outlive this object. Throws Error unless each id means the same token in both models, and `draft`
  /// generates text.
  DraftModel(const LoadedModel& target, const LoadedModel& draft);

  /// Sets the kind of cache, before the first draft. Texts' sequences of another kind must be dropped. Throws Error if
  /// the model cannot be run with these options.
  void use_cache(const CacheOptions& options);
  const CacheOptions& cache() const { return options_; }

  std::uint64_t cache_bytes() const override { return root_ ? root_->cache().pool().bytes_in_use() : 0; }

 private:
  std::size_t begin_drafts(std::span<Text> texts, std::size_t piece) override;
  bool draft_tokens() override;
  void end_drafts(std::span<Text> /*texts*/) override {}
  bool prepare(Text& text, std::size_t piece) const;

  const LoadedModel& loaded_;
  std::size_t vocab_size_;
  CacheOptions options_{};
  std::optional<model::SequenceState> root_;  ///< without tokens; all texts take their pages from its pool

  // Kept, so that a token needs no allocation.
  std::vector<Text*> drafting_;
  std::vector<Sequence*> batch_;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_DRAFT_MODEL_H_
