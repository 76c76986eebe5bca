// An admitted request: its texts and their progress.
#ifndef BALLAST_SERVE_SCHEDULER_RUNNING_REQUEST_H_
#define BALLAST_SERVE_SCHEDULER_RUNNING_REQUEST_H_

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/drafter.h"
#include "engine/loaded_model.h"
#include "engine/output_processor.h"
#include "engine/prompt_scorer.h"
#include "engine/sequence.h"
#include "engine/text_classifier.h"
#include "engine/text_drafts.h"
#include "engine/text_pooler.h"
#include "kernels/clock.h"
#include "serve/scheduler/request.h"

namespace ballast::serve {

using kernels::Clock;

/// One text of a request. The next steps run the part of `tokens` that has not run: a prompt piece by piece, then the
/// last chosen token; after a preemption all tokens again.
struct Choice {
  std::vector<int> tokens;  ///< the prompt's and the chosen ones
  engine::OutputProcessor output;
  engine::TextDrafts drafts;
  std::optional<engine::Sequence> sequence{};  ///< absent: nothing has run
  engine::DraftState draft_state{};
  std::size_t generated = 0;
  bool shares_last_page = false;  ///< it is copied before a token is added
  bool ended = false;

  std::size_t run() const { return sequence ? sequence->run() : 0; }
  std::size_t left() const { return tokens.size() - run(); }

  /// Returns the number of tokens that the sequence has: those that have run, and those that run again after a rejected
  /// draft.
  std::size_t known() const { return sequence ? sequence->ids().size() : 0; }
  bool generates() const { return !ended && generated > 0 && tokens.size() - known() == 1; }
};

/// State shared by the parts of one request. Each part has some of its choices and runs independently of the others.
struct WholeRequest {
  std::size_t open = 0;  ///< number of parts that have not ended
  bool failed = false;   ///< on_failure was called
  RequestUsage usage{};
};

struct RunningRequest {
  /// At most `draft_tokens` are drafted for each text.
  RunningRequest(const engine::LoadedModel& loaded, GenerationRequest asked, std::shared_ptr<RequestListener> hears,
                 std::shared_ptr<Ticket> ticket_of_it, std::size_t draft_tokens);

  bool ended() const;

  /// Returns the index of one of its choices in the whole request.
  std::size_t index_of(const Choice& choice) const {
    return first_choice + static_cast<std::size_t>(&choice - choices.data());
  }

  /// Returns whether this choice reads the whole prompt for its scores or its vector, and has not done so yet.
  bool reads_whole(const Choice& choice) const {
    return (scorer || reads_hidden()) && &choice == &choices.front() && choice.generated == 0;
  }

  /// Returns whether a vector or scores are computed from the prompt's hidden values.
  bool reads_hidden() const { return request.embed || request.classify; }

  /// Prepares the reader of these values for the beginning of the prompt.
  void begin_reading(const model::Model& model);

  engine::HiddenReader& hidden_reader() {
    return embedder ? static_cast<engine::HiddenReader&>(*embedder) : *classifier;
  }

  /// Drops the texts' pages to free memory; they are computed again later.
  void drop_pages();

  GenerationRequest request;
  std::shared_ptr<RequestListener> listener;
  std::shared_ptr<Ticket> ticket;
  std::size_t first_choice = 0;  ///< index of this part's first choice in the whole request
  std::shared_ptr<WholeRequest> whole{};
  std::shared_ptr<void> waiting_slot{};  ///< a slot of the waiting queue, shared by all requests of one submission
  std::vector<Choice> choices;
  std::shared_ptr<model::EncodedSource> source{};  ///< of the request's source text; null before it was read
  std::optional<engine::PromptScorer> scorer;
  std::optional<engine::TextPooler> embedder;
  std::optional<engine::TextClassifier> classifier;
  RequestUsage usage;
  Clock::time_point arrived;
  Clock::time_point admitted{};
  Clock::time_point last_token{};
  bool failed = false;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SCHEDULER_RUNNING_REQUEST_H_
