// A small model that drafts tokens for a larger model with the same vocabulary.
#ifndef BALLAST_ENGINE_DRAFT_MODEL_H_
#define BALLAST_ENGINE_DRAFT_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ballast/cache.h"
#include "engine/loaded_model.h"
#include "engine/sequence.h"

namespace ballast::engine {

/// Drafts for many texts at once. Belongs to one thread at a time.
class DraftModel {
 public:
  /// The models must outlive this object. Throws Error unless each id means the same token in both models, and `draft`
  /// generates text.
  DraftModel(const LoadedModel& target, const LoadedModel& draft);

  /// Sets the kind of cache. Texts' sequences of another kind must be dropped. Throws Error if the model cannot be run
  /// with these options.
  void use_cache(const CacheOptions& options);
  const CacheOptions& cache() const { return options_; }

  /// A text that is to be continued.
  struct Text {
    std::optional<Sequence>* sequence = nullptr;  ///< the draft model's, kept between calls; begins without tokens
    std::span<const int> tokens{};
    std::size_t count = 0;       ///< tokens to draft
    std::vector<int> drafted{};  ///< the result: the most likely ones, fewer at the end of the context
  };

  /// Drafts tokens, one for each text in each step. Of a text that the model has not seen, at most `piece` tokens are
  /// read, and nothing is drafted before all are. Precondition: use_cache() was called.
  void continue_texts(std::span<Text> texts, std::size_t piece);

  /// Returns the time of a drafted token; 0 before the first one.
  double token_seconds() const { return token_seconds_; }

  /// Returns the memory of all texts' keys and values.
  std::uint64_t cache_bytes() const { return root_ ? root_->cache().pool().bytes_in_use() : 0; }

 private:
  bool prepare(Text& text, std::size_t piece) const;

  const LoadedModel& loaded_;
  std::size_t vocab_size_;
  CacheOptions options_{};
  std::optional<model::SequenceState> root_;  ///< without tokens; all texts take their pages from its pool
  double token_seconds_ = 0;

  // Kept, so that a token needs no allocation.
  std::vector<Text*> drafting_;
  std::vector<Sequence*> batch_;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_DRAFT_MODEL_H_
