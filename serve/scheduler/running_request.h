// A request under way: its texts, and how far each has come.
#ifndef BALLAST_SERVE_SCHEDULER_RUNNING_REQUEST_H_
#define BALLAST_SERVE_SCHEDULER_RUNNING_REQUEST_H_

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/continuation.h"
#include "engine/loaded_model.h"
#include "engine/prompt_scorer.h"
#include "engine/sequence.h"
#include "engine/text_pooler.h"
#include "kernels/clock.h"
#include "serve/scheduler/request.h"

namespace ballast::serve {

using kernels::Clock;

/// One of a request's texts. What of `tokens` has not run is what the next steps run: a prompt piece by piece, later
/// the last token chosen; after it has lost its pages, all again.
struct Choice {
  std::vector<int> tokens;  ///< the prompt's and those that were chosen
  engine::Continuation continuation;
  std::optional<engine::Sequence> sequence{};  ///< absent: nothing has run
  std::size_t generated = 0;
  bool shares_last_page = false;  ///< which is copied when a token is added to it
  bool ended = false;

  std::size_t run() const { return sequence ? sequence->run() : 0; }
  std::size_t left() const { return tokens.size() - run(); }
  bool generates() const { return !ended && generated > 0 && left() == 1; }
};

/// What the parts of one request share: some of its choices each, which run independently of the others.
struct WholeRequest {
  std::size_t open = 0;  ///< parts
  bool failed = false;   ///< which the listener has heard
  RequestUsage usage{};
};

struct RunningRequest {
  RunningRequest(const engine::LoadedModel& loaded, GenerationRequest asked, std::shared_ptr<RequestListener> hears,
                 std::shared_ptr<Ticket> ticket_of_it);

  bool ended() const;

  /// Of one of its choices, among those of the whole request.
  std::size_t index_of(const Choice& choice) const {
    return first_choice + static_cast<std::size_t>(&choice - choices.data());
  }

  /// Whether the choice is the one whose prompt is read for what its tokens give, and that has not been done.
  bool reads_whole(const Choice& choice) const {
    return (scorer || embedder) && &choice == &choices.front() && choice.generated == 0;
  }

  /// Gives up what was read, so that others have the memory; it is read again later.
  void drop_pages();

  GenerationRequest request;
  std::shared_ptr<RequestListener> listener;
  std::shared_ptr<Ticket> ticket;
  std::size_t first_choice = 0;  ///< of the whole request, the first of this part
  std::shared_ptr<WholeRequest> whole{};
  std::shared_ptr<void> place{};  ///< among those that wait; shared with what was submitted together
  std::vector<Choice> choices;
  std::optional<engine::PromptScorer> scorer;
  std::optional<engine::TextPooler> embedder;
  RequestUsage usage;
  Clock::time_point arrived;
  Clock::time_point admitted{};
  Clock::time_point last_token{};
  bool failed = false;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SCHEDULER_RUNNING_REQUEST_H_
