#include "engine/head_drafter.h"

#include <algorithm>

#include "kernels/logits.h"

namespace ballast::engine {

/// Adds the outputs that the head has not seen to the batch, with the tokens after them, and `hidden_`. Returns whether
/// these are all, so that the head drafts. Nothing is added if there are none, or no room for the draft.
bool HeadDrafter::add_rows(Text& text, std::size_t piece) {
  text.drafted.clear();
  Sequence& sequence = *text.sequence;
  std::optional<DraftHeadText>& head = text.state->head;
  const std::size_t last = text.tokens.size() - 1;  // a token without an output
  const std::size_t end = std::min(sequence.hidden_end(), last);
  const bool follows = head && head->end >= sequence.hidden_begin() && head->end <= last &&
                       head->state.cache().room() >= last - head->end + text.count;
  if (!follows) {
    head = DraftHeadText{.state = root_, .begin = sequence.hidden_begin(), .end = sequence.hidden_begin()};
  }
  const std::size_t first = head->end;
  if (first >= end || head->state.cache().room() < end - first + text.count) return false;
  const std::size_t count = std::min(end - first, piece);
  const std::size_t size = model_.spec().hidden_size;
  const std::span<const float> rows = sequence.hidden().subspan((first - sequence.hidden_begin()) * size, count * size);
  hidden_.insert(hidden_.end(), rows.begin(), rows.end());
  batch_.push_back({.tokens = text.tokens.subspan(first + 1, count), .state = &head->state});
  head->end += count;
  sequence.drop_hidden(head->end);
  return head->end == last;
}

/// Runs the batch on `hidden_`, which the head's outputs replace.
void HeadDrafter::run() {
  const std::size_t size = model_.spec().hidden_size;
  const float* rows = hidden_.data();
  for (model::DraftHeadTokens& text : batch_) {
    text.hidden = rows;
    rows += text.tokens.size() * size;
  }
  outputs_.resize(batch_.size() * size);
  logits_.resize(batch_.size() * model_.spec().vocab_size);
  model_.run_draft_head(batch_, outputs_.data(), logits_.data(), workspace_);
}

/// Takes the most likely token of each text, and leaves in the batch the texts that go on, with their last token.
void HeadDrafter::take_drafts() {
  const std::size_t size = model_.spec().hidden_size;
  const std::size_t vocab_size = model_.spec().vocab_size;
  hidden_.clear();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    Text* text = drafting_[i];
    if (text == nullptr) continue;
    text->drafted.push_back(static_cast<int>(kernels::argmax(logits_.data() + i * vocab_size, vocab_size)));
    if (text->drafted.size() == text->count) continue;
    const float* output = outputs_.data() + i * size;
    hidden_.insert(hidden_.end(), output, output + size);
    batch_[kept] = {.tokens = std::span<const int>(text->drafted).last(1), .state = batch_[i].state};
    drafting_[kept++] = text;
  }
  batch_.resize(kept);
  drafting_.resize(kept);
}

std::size_t HeadDrafter::begin_drafts(std::span<Text> texts, std::size_t piece) {
  drafting_.clear();
  batch_.clear();
  hidden_.clear();
  std::size_t most_pending = 0;
  for (Text& text : texts) {
    text.drafted.reserve(text.count);  // the batch refers to its tokens
    const std::size_t before = batch_.size();
    const bool drafts = add_rows(text, piece);
    if (batch_.size() == before) continue;
    drafting_.push_back(drafts ? &text : nullptr);
    most_pending = std::max(most_pending, batch_.back().tokens.size());
  }
  model_.draft_head()->normalize(hidden_.data(), hidden_.size() / model_.spec().hidden_size);
  return most_pending;
}

bool HeadDrafter::draft_tokens() {
  run();
  take_drafts();
  return !batch_.empty();
}

/// Drafted tokens that the head has seen are not the text's yet.
void HeadDrafter::end_drafts(std::span<Text> texts) {
  for (const Text& text : texts) {
    if (text.state->head) text.state->head->state.truncate(text.state->head->end - text.state->head->begin);
  }
}

}  // namespace ballast::engine
