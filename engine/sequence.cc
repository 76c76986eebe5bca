#include "engine/sequence.h"

#include <algorithm>

namespace ballast::engine {

Sequence::Sequence(const model::Model& model, const CacheOptions& options, std::size_t capacity)
    : options_(options), state_(model.make_state(options, capacity)) {}

void Sequence::append(const model::TokenSpan& tokens) {
  const std::size_t before = ids_.size();
  ids_.insert(ids_.end(), tokens.ids().begin(), tokens.ids().end());
  if (rows_.empty() && tokens.rows().empty()) return;
  rows_.resize(before, nullptr);
  rows_.insert(rows_.end(), tokens.rows().begin(), tokens.rows().end());
  rows_.resize(ids_.size(), nullptr);
}

void Sequence::replace(const model::TokenSpan& tokens) {
  const model::TokenSpan seen = this->tokens();
  const std::size_t most = std::min({run(), tokens.size(), tokens.size() - std::min<std::size_t>(tokens.size(), 1)});
  std::size_t kept = 0;
  while (kept < most && tokens[kept] == seen[kept]) ++kept;
  state_.truncate(state_.can_truncate_to(kept) ? kept : 0);
  ids_.assign(tokens.ids().begin(), tokens.ids().end());
  rows_.assign(tokens.rows().begin(), tokens.rows().end());
}

void Sequence::cut_back(std::size_t count) {
  if (count < run()) state_.truncate(count);
  ids_.resize(count);
  if (!rows_.empty()) rows_.resize(count);
}

}  // namespace ballast::engine
