// Speculative decoding: tokens are drafted, and one step of the model checks them together.
#ifndef BALLAST_ENGINE_SPECULATION_H_
#define BALLAST_ENGINE_SPECULATION_H_

#include <cstddef>
#include <span>
#include <vector>

#include "engine/draft_counts.h"
#include "engine/drafter.h"
#include "engine/sequence.h"
#include "engine/step_times.h"
#include "engine/text_drafts.h"

namespace ballast::engine {

/// Throws Error for more tokens than can be drafted at once: 64.
void check_draft_tokens(std::size_t most_tokens);

/// A text whose next step may run a draft.
struct DraftedText {
  TextDrafts* drafts = nullptr;   ///< gets the draft
  DraftState* state = nullptr;    ///< the drafter's
  Sequence* sequence = nullptr;   ///< the model's, see Drafter::Text
  std::span<const int> tokens{};  ///< all so far
  std::span<const int> forced{};  ///< tokens that a constraint leaves no choice about
  std::size_t limit = 0;          ///< most tokens of the draft
};

/// Drafts for the texts of a model, from what they repeat, from their constraints, or by a drafter, as long as that is
/// faster. The texts remain the model's: drafts only choose which tokens its next step runs in addition. Belongs to
/// one thread at a time.
class Speculation {
 public:
  /// Drafts at most `most_tokens` for a text; the drafter may be null. Precondition: check_draft_tokens(most_tokens).
  Speculation(std::size_t most_tokens, Drafter* drafter);

  std::size_t most_tokens() const { return most_tokens_; }

  /// Sets the draft of each text. `rows` is the number of tokens that the next step runs without drafts, of all texts
  /// and prompts.
  void draft(std::span<const DraftedText> texts, std::size_t rows);

  /// Records the time of a step of the model.
  void measure_step(std::size_t rows, double seconds) { times_.measure(rows, seconds); }

 private:
  void ask_drafter(std::span<const DraftedText> texts, std::size_t rows);

  std::size_t most_tokens_;
  Drafter* drafter_;
  StepTimes times_;
  DraftChooser chooser_;

  // Kept, so that a token needs no allocation.
  std::vector<DraftOffer> offers_;
  std::vector<DraftedText> undrafted_;
  std::vector<Drafter::Text> modelled_;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_SPECULATION_H_
