// The tokens of one text, the model's state for them, and the outputs that the next step returns.
#ifndef BALLAST_ENGINE_SEQUENCE_H_
#define BALLAST_ENGINE_SEQUENCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ballast/cache.h"
#include "model/model.h"

namespace ballast::engine {

/// Reads the logits of many tokens block by block as they are computed, so that they are never in memory all at once.
class LogitsReader {
 public:
  virtual ~LogitsReader() = default;

  /// Receives rows [rows.size() / vocab_size][vocab_size] of the step's wanted ones, from row `first` on. Is called by
  /// the thread that leads a step, inside its team; must not throw.
  virtual void read(std::size_t first, std::span<const float> rows) = 0;
};

/// Reads the head's input: hidden values of tokens after the last norm.
class HiddenReader {
 public:
  virtual ~HiddenReader() = default;

  /// Receives rows [rows.size() / hidden_size][hidden_size] of all of the step's wanted tokens. Is called by a thread
  /// of the step's team, in parallel with other sequences; must not throw.
  virtual void read(std::span<const float> rows) = 0;
};

/// append() adds tokens; a step of the engine runs those that have not run yet and stores the wanted logits. Belongs to
/// one thread at a time; the model must outlive it. Rows that tokens have in place of ids are not copied: they must
/// stay, unchanged, as long as the sequence has the tokens.
class Sequence {
 public:
  /// Creates a sequence without tokens with room for `capacity`, or for any number if the cache rolls; memory is
  /// allocated on demand. Its tokens run with the adapter; null: without one. Throws Error if the model cannot be run
  /// with these options.
  Sequence(const model::Model& model, const CacheOptions& options, std::size_t capacity,
           std::shared_ptr<const model::Adapter> adapter = nullptr);

  /// Continues from tokens without rows, all of which have run, and their state.
  Sequence(model::SequenceState state, std::vector<int> ids) : state_(std::move(state)), ids_(std::move(ids)) {}

  const std::vector<int>& ids() const { return ids_; }  ///< of all tokens; a placeholder's where a token has a row
  model::TokenSpan tokens() const { return {ids_, rows_, types_}; }
  model::TokenSpan pending() const { return tokens().subspan(run(), ids_.size() - run()); }
  std::size_t run() const { return state_.length(); }  ///< number of tokens that have run
  const model::SequenceState& state() const { return state_; }

  const CacheOptions& options() const { return options_; }

  /// Sets the source text that the text is written from, before its first token runs. Precondition: the model has an
  /// encoder.
  void set_source(std::shared_ptr<model::EncodedSource> source) { state_.set_source(std::move(source)); }

  /// Adds tokens to run in the next step.
  void append(const model::TokenSpan& tokens);
  void append(int id) { append(std::span(&id, 1)); }

  /// Replaces the tokens. The common beginning with tokens that have run is kept if the state can be truncated to it;
  /// the rest becomes pending, at least the last one, so that its logits are computed. Rows are the same if they are at
  /// the same address.
  void replace(const model::TokenSpan& tokens);

  /// Replaces the tokens and the state by those of another, which shares its pages, and keeps the memory for logits.
  /// Precondition: the other's tokens have no rows, and have all run.
  void continue_from(const Sequence& other) {
    state_ = other.state_;
    ids_ = other.ids_;
  }

  /// Adds tokens that cut_back() may remove after the next step.
  void append_draft(std::span<const int> draft);

  /// Removes the tokens after the first `count`, which may have run. If layers have a recurrent state, they must be
  /// from the last append_draft(), and the tokens of their step that are left become pending again: the state is that
  /// from before the step.
  void cut_back(std::size_t count);

  /// Return the memory of the state from before the last append_draft() and of kept outputs, and free it. The next
  /// cut_back() must not need that state.
  std::size_t draft_bytes() const { return mark_bytes() + hidden_.capacity() * sizeof(float); }
  void release_draft();

  /// Returns the memory of that state alone.
  std::size_t mark_bytes() const { return before_draft_ ? state_.mixer_bytes() : 0; }

  /// Keeps outputs of the last block for the last tokens that ran, `rows` or up to twice as many, for a draft head. 0:
  /// none.
  void keep_hidden(std::size_t rows) { hidden_limit_ = rows; }

  /// Returns the kept outputs, [hidden_end() - hidden_begin()][hidden_size], and their tokens. cut_back() leaves those
  /// of tokens that become pending again.
  std::span<const float> hidden() const { return hidden_; }
  std::size_t hidden_begin() const { return hidden_begin_; }
  std::size_t hidden_end() const { return hidden_end_; }

  /// Drops the outputs for the tokens before `token`.
  void drop_hidden(std::size_t token);

  /// Reserves room, so that appending tokens needs no allocation.
  void reserve(std::size_t tokens) { ids_.reserve(ids_.size() + tokens); }

  /// Reserves room for logits; memory is used only when it is written.
  void reserve_logits(std::size_t values) { logits_.reserve(values); }

  /// Frees the memory of the logits, which the next step allocates again.
  void release_logits() { logits_ = {}; }

  /// Returns the number of each step's last tokens whose logits are wanted.
  std::size_t wanted() const { return wanted_; }
  void want(std::size_t rows) {
    wanted_ = rows;
    reader_ = nullptr;
    hidden_reader_ = nullptr;
  }

  /// Passes the logits of the last `rows` tokens to `reader`, which outlives the step; logits() then has only the last
  /// row.
  void want(std::size_t rows, LogitsReader& reader) {
    want(rows);
    reader_ = &reader;
  }

  /// Requests hidden values instead of logits.
  void want(std::size_t rows, HiddenReader& reader) {
    want(rows);
    hidden_reader_ = &reader;
  }

  /// Returns logits [wanted(), or fewer if fewer tokens ran][vocab_size] after a step.
  std::span<const float> logits() const { return logits_; }

 private:
  friend class Engine;

  void add_hidden(std::span<const float> rows, std::size_t count);
  void cut_hidden(std::size_t end);

  CacheOptions options_;
  model::SequenceState state_;
  std::vector<int> ids_;
  std::vector<const float*> rows_;   ///< as TokenSpan::rows(): empty, or one for each token
  std::vector<std::uint8_t> types_;  ///< as TokenSpan::types()
  std::size_t wanted_ = 1;
  LogitsReader* reader_ = nullptr;
  HiddenReader* hidden_reader_ = nullptr;
  std::vector<float> logits_;
  std::optional<model::SequenceState::Snapshot> before_draft_;
  std::size_t hidden_limit_ = 0;
  std::size_t hidden_begin_ = 0;
  std::size_t hidden_end_ = 0;
  std::vector<float> hidden_;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_SEQUENCE_H_
