#include "engine/sequence.h"

#include <algorithm>

namespace ballast::engine {

namespace {

/// Adds one value for each of `count` tokens, `before` of which there are already. `values` and `all` are empty if all
/// tokens have `usual`.
template <class Value>
void append_values(std::span<const Value> values, Value usual, std::size_t before, std::size_t count,
                   std::vector<Value>& all) {
  if (all.empty() && values.empty()) return;
  all.resize(before, usual);
  all.insert(all.end(), values.begin(), values.end());
  all.resize(before + count, usual);
}

}  // namespace

Sequence::Sequence(const model::Model& model, const CacheOptions& options, std::size_t capacity,
                   std::shared_ptr<const model::Adapter> adapter)
    : options_(options), state_(model.make_state(options, capacity, std::move(adapter))) {}

void Sequence::append(const model::TokenSpan& tokens) {
  const std::size_t before = ids_.size();
  ids_.insert(ids_.end(), tokens.ids().begin(), tokens.ids().end());
  append_values<const float*>(tokens.rows(), nullptr, before, tokens.size(), rows_);
  append_values<std::uint8_t>(tokens.types(), 0, before, tokens.size(), types_);
}

void Sequence::replace(const model::TokenSpan& tokens) {
  const model::TokenSpan seen = this->tokens();
  const std::size_t most = std::min({run(), tokens.size(), tokens.size() - std::min<std::size_t>(tokens.size(), 1)});
  std::size_t kept = 0;
  while (kept < most && tokens[kept] == seen[kept]) ++kept;
  state_.truncate(state_.can_truncate_to(kept) ? kept : 0);
  cut_hidden(kept);
  ids_.assign(tokens.ids().begin(), tokens.ids().end());
  rows_.assign(tokens.rows().begin(), tokens.rows().end());
  types_.assign(tokens.types().begin(), tokens.types().end());
}

void Sequence::append_draft(std::span<const int> draft) {
  if (!draft.empty() && !state_.has_no_recurrent_state()) {
    if (!before_draft_) before_draft_.emplace();
    state_.renew(*before_draft_);
  }
  append(draft);
}

void Sequence::cut_back(std::size_t count) {
  if (count < run()) {
    if (state_.can_truncate_to(count)) {
      state_.truncate(count);
    } else {
      state_.exchange(*before_draft_);
    }
  }
  cut_hidden(count);
  ids_.resize(count);
  if (!rows_.empty()) rows_.resize(count);
  if (!types_.empty()) types_.resize(count);
}

void Sequence::release_draft() {
  before_draft_.reset();
  hidden_ = {};
  hidden_begin_ = hidden_end_ = 0;
}

void Sequence::drop_hidden(std::size_t token) {
  const std::size_t begin = std::clamp(token, hidden_begin_, hidden_end_);
  if (begin == hidden_begin_) return;
  const std::size_t row_size = hidden_.size() / (hidden_end_ - hidden_begin_);
  hidden_.erase(hidden_.begin(), hidden_.begin() + static_cast<std::ptrdiff_t>((begin - hidden_begin_) * row_size));
  hidden_begin_ = begin;
}

/// Adds `count` rows, those of the last tokens that ran. Tokens that run again have their rows already.
void Sequence::add_hidden(std::span<const float> rows, std::size_t count) {
  const std::size_t first = run() - count;
  const std::size_t row_size = rows.size() / count;
  if (hidden_end_ >= run()) return;
  if (hidden_end_ < first) {
    hidden_.clear();
    hidden_begin_ = hidden_end_ = first;
  }
  rows = rows.subspan((hidden_end_ - first) * row_size);
  hidden_.insert(hidden_.end(), rows.begin(), rows.end());
  hidden_end_ = run();
  if (hidden_end_ - hidden_begin_ > 2 * hidden_limit_) drop_hidden(hidden_end_ - hidden_limit_);
}

/// Drops the outputs for the tokens from `end` on.
void Sequence::cut_hidden(std::size_t end) {
  if (end >= hidden_end_) return;
  const std::size_t row_size = hidden_.size() / std::max<std::size_t>(1, hidden_end_ - hidden_begin_);
  hidden_begin_ = std::min(hidden_begin_, end);
  hidden_end_ = end;
  hidden_.resize((hidden_end_ - hidden_begin_) * row_size);
}

}  // namespace ballast::engine
