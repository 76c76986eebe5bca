#include "engine/speculation.h"

#include <algorithm>
#include <string>

#include "ballast/error.h"

namespace ballast::engine {

void check_draft_tokens(std::size_t most_tokens) {
  constexpr std::size_t kMostTokens = 64;  // more are never all accepted, and their logits take memory
  if (most_tokens <= kMostTokens) return;
  throw Error("draft tokens",
              "are " + std::to_string(most_tokens) + ", must be at most " + std::to_string(kMostTokens));
}

Speculation::Speculation(std::size_t most_tokens, Drafter* drafter) : most_tokens_(most_tokens), drafter_(drafter) {
  chooser_.reserve(most_tokens);
  offers_.reserve(1);
  undrafted_.reserve(1);
}

void Speculation::draft(std::span<const DraftedText> texts, std::size_t rows) {
  // Drafting starts when the time of a step is known.
  const std::size_t most = times_.known() ? most_tokens_ : 0;
  offers_.clear();
  for (const DraftedText& text : texts) {
    text.drafts->look_up(text.tokens, text.forced, std::min(most, text.limit));
    offers_.push_back({.acceptance = text.drafts->acceptance()});
  }
  if (most == 0) return;
  chooser_.choose(offers_, rows, times_);
  undrafted_.clear();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    texts[i].drafts->take(offers_[i].count);
    rows += offers_[i].count;
    if (offers_[i].count == 0 && texts[i].limit > 0) undrafted_.push_back(texts[i]);
  }
  if (drafter_ != nullptr && !undrafted_.empty()) ask_drafter(undrafted_, rows);
}

void Speculation::ask_drafter(std::span<const DraftedText> texts, std::size_t rows) {
  constexpr std::size_t kPiece = 512;  // tokens of a prompt that the drafter reads before a step
  offers_.clear();
  for (const DraftedText& text : texts) {
    text.drafts->offer_modelled(text.limit);
    offers_.push_back({.acceptance = text.drafts->acceptance(), .seconds = drafter_->token_seconds()});
  }
  chooser_.choose(offers_, rows, times_);
  modelled_.clear();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (offers_[i].count == 0) {
      texts[i].drafts->skip_modelled();
    } else {
      modelled_.push_back({.state = texts[i].state,
                           .sequence = texts[i].sequence,
                           .tokens = texts[i].tokens,
                           .count = offers_[i].count,
                           .drafted = {}});
    }
  }
  if (modelled_.empty()) return;
  drafter_->continue_texts(modelled_, std::max<std::size_t>(1, kPiece / modelled_.size()));
  std::size_t next = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (offers_[i].count > 0) texts[i].drafts->take_modelled(modelled_[next++].drafted);
  }
}

}  // namespace ballast::engine
