#include "engine/draft_model.h"

#include <algorithm>
#include <utility>

#include "ballast/error.h"
#include "kernels/logits.h"

namespace ballast::engine {

namespace {

/// Throws Error unless each id means the same token in both models, and `draft` generates text. Their embeddings may
/// differ in the number of unused rows.
void check_draft_model(const LoadedModel& target, const LoadedModel& draft) {
  if (!draft.model.spec().causal) throw Error(draft.path.string(), "is an encoder: it drafts no text");
  for (const LoadedModel* model : {&target, &draft}) {
    if (model->model.spec().encoder)
      throw Error(model->path.string(), "writes from source texts, of which none is drafted");
  }
  if (!draft.model.spec().has_head) throw Error(draft.path.string(), model::kNoHead);
  const auto refuse = [&] {
    throw Error(draft.path.string(), "has other tokens than " + target.path.string() + ": it cannot draft for it");
  };
  const text::Tokenizer* own = target.own_tokenizer.get();
  const text::Tokenizer* other = draft.own_tokenizer.get();
  if (own == nullptr || other == nullptr) {
    if (target.model.spec().vocab_size != draft.model.spec().vocab_size) refuse();
    return;
  }
  if (own->vocab_size() != other->vocab_size()) refuse();
  for (std::size_t i = 0; i < own->vocab_size(); ++i) {
    const int id = static_cast<int>(i);
    if (own->token_bytes(id) != other->token_bytes(id) || own->is_special(id) != other->is_special(id)) refuse();
  }
}

}  // namespace

DraftModel::DraftModel(const LoadedModel& target, const LoadedModel& draft)
    : loaded_(draft), vocab_size_(std::min(target.model.spec().vocab_size, draft.model.spec().vocab_size)) {
  check_draft_model(target, draft);
}

void DraftModel::use_cache(const CacheOptions& options) {
  if (root_ && options_ == options) return;
  model::SequenceState root = loaded_.model.make_state(options, loaded_.model.context_length());
  if (!root.has_no_recurrent_state())
    throw Error("draft model", "has recurrent states, from which drafted tokens cannot be removed");
  root_ = std::move(root);
  options_ = options;
}

/// Makes a text's tokens pending. Returns whether all that are pending run in the next step, so that it drafts.
bool DraftModel::prepare(Text& text, std::size_t piece) const {
  text.drafted.clear();
  const bool rolls = options_.window > 0;
  if (!rolls && text.tokens.size() + text.count > loaded_.model.context_length()) return false;
  std::optional<Sequence>& own = text.state->sequence;
  if (!own) own.emplace(*root_, std::vector<int>());
  Sequence& sequence = *own;
  sequence.replace(text.tokens);
  const auto unknown = [&](int id) { return static_cast<std::size_t>(id) >= loaded_.model.spec().vocab_size; };
  if (std::ranges::any_of(sequence.pending().ids(), unknown)) {
    sequence.cut_back(sequence.run());
    return false;
  }
  const bool is_whole = sequence.pending().size() <= piece;
  if (!is_whole) sequence.replace(text.tokens.first(sequence.run() + piece));
  sequence.want(is_whole ? 1 : 0);
  return is_whole;
}

std::size_t DraftModel::begin_drafts(std::span<Text> texts, std::size_t piece) {
  drafting_.clear();
  batch_.clear();
  std::size_t most_pending = 0;
  for (Text& text : texts) {
    const bool drafts = prepare(text, piece);
    if (drafts) drafting_.push_back(&text);
    std::optional<Sequence>& sequence = text.state->sequence;
    if (!sequence || sequence->pending().ids().empty()) continue;
    most_pending = std::max(most_pending, sequence->pending().size());
    batch_.push_back(&*sequence);
  }
  return most_pending;
}

bool DraftModel::draft_tokens() {
  loaded_.engine.step(batch_);
  batch_.clear();
  for (Text* text : drafting_) {
    Sequence& sequence = *text->state->sequence;
    text->drafted.push_back(static_cast<int>(kernels::argmax(sequence.logits().data(), vocab_size_)));
    if (text->drafted.size() == text->count) continue;
    sequence.append(text->drafted.back());
    batch_.push_back(&sequence);
  }
  std::erase_if(drafting_, [](const Text* text) { return text->drafted.size() == text->count; });
  return !batch_.empty();
}

}  // namespace ballast::engine
