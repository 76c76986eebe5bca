#include "engine/sequence.h"

#include <algorithm>

namespace ballast::engine {

Sequence::Sequence(const model::Model& model, const CacheOptions& options, std::size_t capacity)
    : options_(options), state_(model.make_state(options, capacity)) {}

void Sequence::replace(std::span<const int> ids) {
  const std::span<const int> seen = std::span(tokens_).first(run());
  const auto common = static_cast<std::size_t>(std::ranges::mismatch(ids, seen).in1 - ids.begin());
  const std::size_t kept = std::min(common, ids.size() - std::min<std::size_t>(ids.size(), 1));
  state_.truncate(state_.can_truncate_to(kept) ? kept : 0);
  tokens_.assign(ids.begin(), ids.end());
}

void Sequence::cut_back(std::size_t count) {
  if (count < run()) state_.truncate(count);
  tokens_.resize(count);
}

}  // namespace ballast::engine
