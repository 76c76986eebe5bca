#include "engine/token_counts.h"

#include <algorithm>

namespace ballast::engine {
namespace {

// Room for this many tokens of an answer before memory is allocated again.
constexpr std::size_t kRoom = 1024;

}  // namespace

void TokenCounts::add(int token) {
  if (window_ == 0) return;
  const auto place = std::ranges::lower_bound(counts_, token, {}, &Count::token);
  if (place != counts_.end() && place->token == token) {
    ++place->times;
  } else {
    counts_.insert(place, {.token = token, .times = 1});
  }
  if (!window_) return;
  if (last_.size() < *window_) return last_.push_back(token);
  remove(last_[oldest_]);
  last_[oldest_] = token;
  oldest_ = (oldest_ + 1) % last_.size();
}

void TokenCounts::remove(int token) {
  const auto place = std::ranges::lower_bound(counts_, token, {}, &Count::token);
  if (--place->times == 0) counts_.erase(place);
}

/// Sorts a long text at once: adding tokens one by one would move later entries for each.
void TokenCounts::add(std::span<const int> tokens) {
  if (window_) {
    tokens = tokens.last(std::min(tokens.size(), *window_));
    last_.reserve(std::min(*window_, tokens.size() + kRoom));
  }
  if (!counts_.empty() || window_ == 0) {
    for (const int token : tokens) add(token);
    return;
  }
  std::vector<int> sorted(tokens.begin(), tokens.end());
  std::ranges::sort(sorted);
  for (const int token : sorted) {
    if (counts_.empty() || counts_.back().token != token) counts_.push_back({.token = token, .times = 0});
    ++counts_.back().times;
  }
  counts_.reserve(counts_.size() + kRoom);
  if (window_) last_.assign(tokens.begin(), tokens.end());
}

}  // namespace ballast::engine
