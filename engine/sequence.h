// Tokens of one text with what the model keeps of them, and what the next step shall give.
#ifndef BALLAST_ENGINE_SEQUENCE_H_
#define BALLAST_ENGINE_SEQUENCE_H_

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "ballast/cache.h"
#include "model/model.h"

namespace ballast::engine {

/// Reads logits of many tokens as they are computed, block by block, so that they never lie in memory all at once.
class LogitsReader {
 public:
  virtual ~LogitsReader() = default;

  /// Rows [rows.size() / vocab_size][vocab_size] of the step's wanted ones, from row `first` on. Called by the thread
  /// that leads a step, inside its team; must not throw.
  virtual void read(std::size_t first, std::span<const float> rows) = 0;
};

/// The same of what the head reads: hidden values of tokens after the last norm.
class HiddenReader {
 public:
  virtual ~HiddenReader() = default;

  /// Rows [rows.size() / hidden_size][hidden_size] of all of the step's wanted tokens. Called by a thread of the step's
  /// team, beside those of other sequences; must not throw.
  virtual void read(std::span<const float> rows) = 0;
};

/// Tokens come in by append(), a step of the engine runs those that have not run yet and leaves the logits that were
/// wanted. Belongs to one thread at a time; the model must outlive it.
class Sequence {
 public:
  /// Without tokens; `capacity` of them fit, or any number where the cache rolls; memory is taken as they come. Throws
  /// Error when the model cannot be run so.
  Sequence(const model::Model& model, const CacheOptions& options, std::size_t capacity);

  /// Of `tokens`, all of which have run, and what the model keeps of them.
  Sequence(model::SequenceState state, std::vector<int> tokens)
      : state_(std::move(state)), tokens_(std::move(tokens)) {}

  const std::vector<int>& tokens() const { return tokens_; }
  std::span<const int> pending() const { return std::span(tokens_).subspan(run()); }
  std::size_t run() const { return state_.length(); }  ///< of the tokens, the first so many have run
  const model::SequenceState& state() const { return state_; }

  const CacheOptions& options() const { return options_; }

  /// Tokens to run in the next step.
  void append(std::span<const int> ids) { tokens_.insert(tokens_.end(), ids.begin(), ids.end()); }
  void append(int id) { tokens_.push_back(id); }

  /// Makes the tokens `ids`. What they have in common with those that have run stays where the state can be cut back to
  /// it; the rest becomes pending, at least the last one, so that its logits can be had.
  void replace(std::span<const int> ids);

  /// Takes back the tokens after the first `count`, which may have run. Precondition: can_cut_back().
  void cut_back(std::size_t count);

  /// Whether tokens that have run can be taken back: those of the last step always, where any can.
  bool can_cut_back() const { return state_.keeps_no_mixers(); }

  /// Room for tokens to come, so that appending them allocates nothing.
  void reserve(std::size_t tokens) { tokens_.reserve(tokens_.size() + tokens); }

  /// The same for logits; what of it is used takes memory.
  void reserve_logits(std::size_t values) { logits_.reserve(values); }

  /// Of each step's tokens, the last so many whose logits are wanted.
  std::size_t wanted() const { return wanted_; }
  void want(std::size_t rows) {
    wanted_ = rows;
    reader_ = nullptr;
    hidden_reader_ = nullptr;
  }

  /// The same, handed to `reader`, which outlives the step; logits() then has the last row alone.
  void want(std::size_t rows, LogitsReader& reader) {
    want(rows);
    reader_ = &reader;
  }

  /// No logits, but hidden values.
  void want(std::size_t rows, HiddenReader& reader) {
    want(rows);
    hidden_reader_ = &reader;
  }

  /// [wanted(), or fewer where fewer tokens ran][vocab_size] after a step.
  std::span<const float> logits() const { return logits_; }

 private:
  friend class Engine;

  CacheOptions options_;
  model::SequenceState state_;
  std::vector<int> tokens_;
  std::size_t wanted_ = 1;
  LogitsReader* reader_ = nullptr;
  HiddenReader* hidden_reader_ = nullptr;
  std::vector<float> logits_;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_SEQUENCE_H_
