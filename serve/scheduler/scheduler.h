// Many requests over one model: who waits, who runs, and what each step of the engine is made of.
//
// Tokens of texts that generate come first in a step; what is left of the time that their readers wait for the next
// one goes to pieces of prompts. Requests enter and leave from step to step (continuous batching, Orca 2022). What a
// request gets does not depend on who else is served: see model::Model.
#ifndef BALLAST_SERVE_SCHEDULER_SCHEDULER_H_
#define BALLAST_SERVE_SCHEDULER_SCHEDULER_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/cache.h"
#include "engine/loaded_model.h"
#include "serve/scheduler/fair_queue.h"
#include "serve/scheduler/figures.h"
#include "serve/scheduler/prefix_cache.h"
#include "serve/scheduler/prompt_pace.h"
#include "serve/scheduler/request.h"
#include "serve/scheduler/running_request.h"

namespace ballast::serve {

/// A request, and who hears of it.
struct Submission {
  GenerationRequest request;
  std::shared_ptr<RequestListener> listener;
};

struct SchedulerOptions {
  CacheOptions::Type cache_type = CacheOptions::Type::kAuto;
  std::uint64_t cache_bytes = std::uint64_t{1} << 30;  ///< for pages of keys and values, and mixers' states
  std::size_t most_running = 64;                       ///< texts
  std::size_t most_waiting = 256;                      ///< submissions
  double longest_wait = 0;    ///< seconds by the estimate, beyond which a request is refused; 0: any
  double target_itl = 0.150;  ///< seconds between two tokens of a text while prompts are read
};

/// Why a request was not accepted: the server is full, or going down.
struct Refusal {
  std::string reason;  ///< "queue_full", "wait_too_long", "draining"
  std::string message;
  double retry_after = 1;  ///< seconds
};

class Scheduler {
 public:
  /// The model must outlive it. Throws Error where the memory for pages is less than a text needs.
  Scheduler(const engine::LoadedModel& loaded, const SchedulerOptions& options);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Tokens that a text can have, prompt and continuation: what the model was trained for, or what fits the memory.
  std::size_t context_length() const { return context_length_; }

  /// Tokens that each of a request's continuations can have, so that all fit the memory; at least one.
  std::size_t most_tokens(std::size_t choices, std::size_t prompt_tokens) const;

  /// Works, on the engine's thread: until drain() and the last request's end, or until stop().
  void run();

  /// Any thread. Throws Error for options that are out of range; tokens and lengths must have been checked.
  /// The requests are accepted together or not at all, and wait as one. Where one has many choices, they are let in
  /// part by part, so that they need not wait until all others have ended.
  std::expected<std::vector<std::shared_ptr<Ticket>>, Refusal> submit(std::vector<Submission> submissions);

  /// Accepts nothing more and goes on with what it has. Any thread.
  void drain();

  /// Ends all requests with a failure within a step. Any thread.
  void stop();

  /// A copy as of the last step. Any thread.
  Figures figures() const;

 private:
  using RequestPtr = std::unique_ptr<RunningRequest>;

  /// Tokens that the next step runs for a choice.
  struct Share {
    RunningRequest* request;
    Choice* choice;
    std::size_t tokens;

    bool ends_prompt() const { return tokens == choice->left(); }
    bool scores() const { return request->scorer && request->reads_whole(*choice); }
    bool embeds() const { return request->embedder.has_value(); }
  };

  std::size_t choices_of_part(std::size_t choices) const;
  void add_parts(Submission submission, std::shared_ptr<Ticket> ticket, std::vector<RequestPtr>& entering) const;
  void check_fits(const GenerationRequest& request) const;
  std::optional<Refusal> refusal() const;
  void end();
  bool wait_for_work();
  void turn();
  void drop_cancelled();
  void admit();
  std::size_t pages_of(const RunningRequest& request) const;
  std::uint64_t mixer_bytes_in_use() const;
  void share_out();
  void share_out_prompts(std::size_t budget);
  bool begins_like_another(const RunningRequest& request, const Choice& choice) const;
  void begin(RunningRequest& request, Choice& choice);
  bool make_room();
  std::uint64_t bytes_of_shares() const;
  bool preempt_last();
  void step();
  void choose(std::span<const Share> shares);
  void take(const Share& share, const GeneratedToken& token);
  void end_prompt(const Share& share);
  void end_choice(RunningRequest& request, Choice& choice, GenerateResult::Finish finish);
  void fail(RunningRequest& request, Failure failure, const std::string& message);
  void fail_running(const std::string& message);
  void fail_all();
  void remove_ended();
  void publish();
  double expected_wait() const;

  const engine::LoadedModel& loaded_;
  SchedulerOptions options_;
  model::SequenceState root_;  ///< without tokens; the model's prefix is in its pages, which all sequences share
  std::uint64_t page_bytes_;
  std::uint64_t mixer_bytes_;  ///< of every state, a running text's or one in the prefix cache
  std::size_t context_length_;

  std::atomic<std::size_t> places_taken_ = 0;  ///< by submissions of which something waits
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  FairQueue<RequestPtr> waiting_;
  bool draining_ = false;
  bool stopping_ = false;
  Figures published_;

  // The engine's thread alone.
  std::vector<RequestPtr> running_;  ///< in the order of admission
  std::vector<Share> shares_;
  std::vector<engine::Sequence*> batch_;
  PrefixCache prefix_cache_;
  PromptPace pace_;
  Figures figures_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SCHEDULER_SCHEDULER_H_
