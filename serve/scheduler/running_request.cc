#include "serve/scheduler/running_request.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ballast/error.h"

namespace ballast::serve {

RunningRequest::RunningRequest(const engine::LoadedModel& loaded, GenerationRequest asked,
                               std::shared_ptr<RequestListener> hears, std::shared_ptr<Ticket> ticket_of_it,
                               std::size_t draft_tokens)
    : request(std::move(asked)), listener(std::move(hears)), ticket(std::move(ticket_of_it)), arrived(Clock::now()) {
  const model::Model& model = loaded.model;
  const std::shared_ptr<const text::CompiledConstraint> constraint = loaded.compile(request.options.constraint);
  choices.reserve(request.choices);
  for (std::size_t i = 0; i < request.choices; ++i) {
    GenerateOptions options = request.options;
    options.seed += i;
    choices.push_back({.tokens = request.prompt,
                       .output = engine::OutputProcessor(loaded.own_tokenizer.get(), model.spec().stop_tokens,
                                                         request.begin, request.reply, options, constraint),
                       .drafts = engine::TextDrafts(draft_tokens)});
    choices.back().output.see(request.prompt);
  }
  if (request.score_prompt) {
    scorer.emplace(request.prompt, request.score_prompt->top, model.spec().vocab_size, request.score_prompt->ranks);
  }
  usage.prompt_tokens = request.source.empty() ? request.prompt.size() : request.source.size();
}

void RunningRequest::begin_reading(const model::Model& model) {
  if (request.embed) embedder.emplace(*request.embed, model.spec().hidden_size);
  if (request.classify) classifier.emplace(*model.classifier(), model.spec().hidden_size);
}

bool RunningRequest::ended() const {
  return failed || std::ranges::all_of(choices, &Choice::ended);
}

void RunningRequest::drop_pages() {
  for (Choice& choice : choices) {
    choice.sequence.reset();
    choice.draft_state.reset();
  }
  source.reset();
}

}  // namespace ballast::serve
