// A source of drafts that computes them: a draft model, or a model's draft head.
#ifndef BALLAST_ENGINE_DRAFTER_H_
#define BALLAST_ENGINE_DRAFTER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/sequence.h"
#include "model/mixer/sequence_state.h"

namespace ballast::engine {

/// A text in a draft head, which has seen the tokens from `begin` on and the model's outputs for those before `end`.
struct DraftHeadText {
  model::SequenceState state;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// What drafters keep of a text between calls; begins empty.
struct DraftState {
  std::optional<Sequence> sequence{};   ///< a draft model's
  std::optional<DraftHeadText> head{};  ///< a draft head's

  void reset() { *this = {}; }
};

/// Drafts for many texts at once. Belongs to one thread at a time.
class Drafter {
 public:
  Drafter() = default;
  Drafter(const Drafter&) = delete;
  Drafter& operator=(const Drafter&) = delete;
  virtual ~Drafter() = default;

  /// A text that is to be continued.
  struct Text {
    DraftState* state = nullptr;
    Sequence* sequence = nullptr;  ///< the model's, which has run all tokens but the last ones
    std::span<const int> tokens{};
    std::size_t count = 0;       ///< tokens to draft
    std::vector<int> drafted{};  ///< the result: the most likely ones, fewer at the end of the context
  };

  /// Drafts tokens, one for each text in each step. Of a text that the drafter has not seen, at most `piece` tokens are
  /// read, and nothing is drafted before all are.
  void continue_texts(std::span<Text> texts, std::size_t piece);

  /// Returns the memory of all texts' keys and values.
  virtual std::uint64_t cache_bytes() const = 0;

  /// Returns the time of a drafted token; 0 before the first one.
  double token_seconds() const { return token_seconds_; }

 protected:
  /// Makes the batch of the first step. Returns the most tokens that it has of one text; 0 without a batch.
  virtual std::size_t begin_drafts(std::span<Text> texts, std::size_t piece) = 0;

  /// Runs the batch, takes the drafted tokens, and makes the batch of the texts that go on. Returns whether there are
  /// any.
  virtual bool draft_tokens() = 0;

  /// Ends what begin_drafts() began.
  virtual void end_drafts(std::span<Text> texts) = 0;

 private:
  double token_seconds_ = 0;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_DRAFTER_H_
