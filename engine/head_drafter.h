// Drafts by the head for multi-token prediction that a model brings.
#ifndef BALLAST_ENGINE_HEAD_DRAFTER_H_
#define BALLAST_ENGINE_HEAD_DRAFTER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/drafter.h"
#include "model/model.h"

namespace ballast::engine {

/// Drafts from the outputs that texts' sequences keep. The head catches up with a text when it is asked for a draft; of
/// a text that it has not followed it sees the end.
class HeadDrafter final : public Drafter {
 public:
  /// The number of outputs that a sequence should keep for the head: Sequence::keep_hidden().
  static constexpr std::size_t kKeptTokens = 128;

  /// The model must outlive this object. Precondition: it has a draft head.
  explicit HeadDrafter(const model::Model& model)
      : model_(model), root_(model.draft_head()->make_state(model.context_length())) {}

  std::uint64_t cache_bytes() const override { return root_.cache().pool().bytes_in_use(); }

 private:
  std::size_t begin_drafts(std::span<Text> texts, std::size_t piece) override;
  bool draft_tokens() override;
  void end_drafts(std::span<Text> texts) override;
  bool add_rows(Text& text, std::size_t piece);
  void run();
  void take_drafts();

  const model::Model& model_;
  model::SequenceState root_;  ///< without tokens; all texts take their pages from its pool

  // Kept, so that a token needs no allocation.
  std::vector<Text*> drafting_;  ///< texts of the batch that draft; null for one that only reads
  std::vector<model::DraftHeadTokens> batch_;
  std::vector<float> hidden_;  ///< the model's outputs for the batch, then the head's
  std::vector<float> outputs_;
  std::vector<float> logits_;
  model::DraftHeadWorkspace workspace_;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_HEAD_DRAFTER_H_
