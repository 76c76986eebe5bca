#include "engine/draft_model.h"

#include <utility>

#include "ballast/error.h"
#include "kernels/clock.h"
#include "kernels/logits.h"

namespace ballast::engine {

void DraftModel::use_cache(const CacheOptions& options) {
  if (sequence_ && sequence_->options() == options) return;
  Sequence sequence(model_, options, model_.context_length());
  if (!sequence.can_cut_back())
    throw Error("draft model", "has recurrent states, from which drafted tokens cannot be removed");
  sequence_ = std::move(sequence);
}

void DraftModel::continue_text(std::span<const int> tokens, std::size_t count, std::vector<int>& drafted) {
  // A step with more tokens is a prompt, whose time is not that of a single token.
  constexpr std::size_t kMostPending = 16;

  const bool rolls = sequence_->options().window > 0;
  if (!rolls && tokens.size() + count > model_.context_length()) return;
  sequence_->replace(tokens);
  const std::span<const int> pending = sequence_->pending().ids();
  const auto unknown = [&](int id) { return static_cast<std::size_t>(id) >= model_.spec().vocab_size; };
  if (std::ranges::any_of(pending, unknown)) return;
  const bool is_prompt = pending.size() > kMostPending;

  const kernels::Clock::time_point start = kernels::Clock::now();
  for (;;) {
    engine_.step(*sequence_);
    drafted.push_back(static_cast<int>(kernels::argmax(sequence_->logits().data(), vocab_size_)));
    if (drafted.size() == count) break;
    sequence_->append(drafted.back());
  }
  if (is_prompt) return;
  token_seconds_ = kernels::seconds_since(start) / static_cast<double>(count);
}

}  // namespace ballast::engine
