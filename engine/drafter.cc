#include "engine/drafter.h"

#include "kernels/clock.h"

namespace ballast::engine {

void Drafter::continue_texts(std::span<Text> texts, std::size_t piece) {
  // A batch with more tokens of a text is a prompt, whose time is not that of a single token.
  constexpr std::size_t kMostPending = 16;

  const std::size_t pending = begin_drafts(texts, piece);
  if (pending == 0) return;
  const kernels::Clock::time_point start = kernels::Clock::now();
  while (draft_tokens()) {
  }
  end_drafts(texts);
  std::size_t drafted = 0;
  for (const Text& text : texts) drafted += text.drafted.size();
  if (pending > kMostPending || drafted == 0) return;
  token_seconds_ = kernels::seconds_since(start) / static_cast<double>(drafted);
}

}  // namespace ballast::engine
