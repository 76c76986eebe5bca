#include "engine/generation.h"

#include <utility>
#include <vector>

#include "kernels/clock.h"

namespace ballast::engine {

void Generation::run() {
  while (!ended()) {
    take_chosen();
    if (!ended()) step();
  }
  output_.finish();
  tell(nullptr);
}

/// Takes the tokens that the last step's logits choose: one, and one more for each accepted draft token.
void Generation::take_chosen() {
  const std::span<const int> draft = drafts_.draft();
  result_.draft_tokens += draft.size();
  result_.accepted_tokens += output_.next_tokens(sequence_, draft, [&](GeneratedToken token) {
    take(std::move(token));
    return !ended();
  });
}

void Generation::take(GeneratedToken token) {
  if (speculation_ != nullptr) drafts_.observe(token.id);
  result_.tokens.push_back(std::move(token));
  if (output_.stopped()) result_.finish = Finish::kStop;
  tell(&result_.tokens.back());
  if (cancelled_ && !output_.stopped()) result_.finish = Finish::kCancelled;
}

void Generation::tell(const GeneratedToken* token) {
  const std::vector<ReplyPart>& parts = output_.parts();
  for (const ReplyPart& part : parts) {
    add_to_result(part);
    tell_step(
        {.text = part.text, .kind = part.kind, .call = part.call, .token = &part == &parts.back() ? token : nullptr});
  }
  if (parts.empty() && token != nullptr) tell_step({.text = {}, .kind = ReplyKind::kAnswer, .token = token});
  output_.clear_parts();
}

void Generation::add_to_result(const ReplyPart& part) {
  switch (part.kind) {
    case ReplyKind::kAnswer:
      result_.text += part.text;
      break;
    case ReplyKind::kThinking:
      result_.thinking += part.text;
      break;
    case ReplyKind::kToolName:
      result_.tool_calls.push_back({.name = part.text, .arguments = {}});
      break;
    case ReplyKind::kToolArguments:
      result_.tool_calls.back().arguments += part.text;
      break;
    case ReplyKind::kBrokenCall:
      result_.tool_calls.pop_back();
      result_.text += part.text;
      break;
  }
}

void Generation::tell_step(const GenerateStep& step) {
  if (on_step_ && !cancelled_) cancelled_ = !on_step_(step);
}

/// Drafts tokens for the next step.
void Generation::find_draft() {
  const std::size_t left = limit_ - result_.tokens.size();
  const DraftedText text = {.drafts = &drafts_,
                            .state = &draft_state_,
                            .sequence = &sequence_,
                            .tokens = sequence_.ids(),
                            .forced = output_.forced_tokens(),
                            .limit = left - 1};  // the last token needs no step of its own
  speculation_->draft({&text, 1}, sequence_.pending().size());
  drafts_.cut(output_.count_allowed(drafts_.draft()));
}

void Generation::step() {
  sequence_.append(result_.tokens.back().id);
  if (speculation_ != nullptr) find_draft();
  const std::span<const int> draft = drafts_.draft();
  sequence_.want(draft.size() + 1);
  if (speculation_ == nullptr) return engine_.step(sequence_);
  const kernels::Clock::time_point start = kernels::Clock::now();
  sequence_.append_draft(draft);
  const std::size_t rows = sequence_.pending().size();
  engine_.step(sequence_);
  speculation_->measure_step(rows, kernels::seconds_since(start));
}

}  // namespace ballast::engine
