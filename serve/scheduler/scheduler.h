// The scheduler of many requests over one model: the waiting queue, the running requests, and the batch of each step.
// An EngineLoop calls it.
//
// Tokens of generating texts come first in a step; the rest of the target time between two of their tokens is used for
// pieces of prompts. Requests enter and leave between steps (continuous batching, Orca 2022). A request's result does
// not depend on the other requests: see model::Model.
#ifndef BALLAST_SERVE_SCHEDULER_SCHEDULER_H_
#define BALLAST_SERVE_SCHEDULER_SCHEDULER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/cache.h"
#include "engine/draft_model.h"
#include "engine/head_drafter.h"
#include "engine/loaded_model.h"
#include "engine/speculation.h"
#include "serve/scheduler/disk_cache.h"
#include "serve/scheduler/fair_queue.h"
#include "serve/scheduler/prefix_cache.h"
#include "serve/scheduler/prompt_pace.h"
#include "serve/scheduler/request.h"
#include "serve/scheduler/running_request.h"
#include "serve/scheduler/scheduler_stats.h"

namespace ballast::serve {

/// A request and its listener.
struct Submission {
  GenerationRequest request;
  std::shared_ptr<RequestListener> listener;
};

struct SchedulerOptions {
  CacheOptions::Type cache_type = CacheOptions::Type::kAuto;
  std::uint64_t cache_bytes = std::uint64_t{1} << 30;  ///< for pages of keys and values, and states of mixers
  std::size_t most_running = 64;                       ///< texts
  std::size_t most_waiting = 256;                      ///< submissions
  double longest_wait = 0;                     ///< estimated seconds above which a request is refused; 0: no limit
  double target_itl = 0.150;                   ///< seconds between two tokens of a text while prompts are read
  std::size_t draft_tokens = 8;                ///< most tokens that are drafted for a text at once; 0: none
  const engine::LoadedModel* draft = nullptr;  ///< drafts tokens and outlives the scheduler; null: none
  /// Keeps beginnings of texts on disk, too. Not attached, and not used by another scheduler; null: none.
  std::shared_ptr<DiskCache> disk_cache = nullptr;
  std::function<void()> on_accepted{};  ///< is called after requests were accepted, on any thread
};

/// Why a request was not accepted: the server is full, or shutting down.
struct Refusal {
  std::string reason;  ///< "queue_full", "wait_too_long", "draining"
  std::string message;
  double retry_after = 1;  ///< seconds
};

class Scheduler {
 public:
  /// The models must outlive the scheduler. Throws Error if the memory for pages is less than one text needs, and for a
  /// draft model that does not fit the model.
  Scheduler(const engine::LoadedModel& loaded, const SchedulerOptions& options);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Returns the largest number of tokens of a text, prompt and continuation: the model's context, or the number that
  /// fits the memory.
  std::size_t context_length() const { return context_length_; }

  /// Returns the largest number of tokens of each continuation for which all fit the memory; at least one.
  std::size_t most_tokens(std::size_t choices, std::size_t prompt_tokens) const;

  // Called by the engine's thread: see EngineLoop.

  /// Returns whether a request is waiting or running.
  bool has_work() const;

  /// Runs a step. `others_wait`: another model's texts wait for this step's end, so that it must be short. Throws Error
  /// if the model can't go on, because its files are not complete any more.
  void work(bool others_wait);

  /// Ends all requests with a failure, and refuses later ones.
  void end();

  /// Measures the memory's bandwidth, which takes a moment.
  void measure_memory();
  bool has_measured_memory() const { return stats_.fastest_tokens > 0; }

  /// Moves the texts of the prefix cache to disk, if there is such a cache. No request may be running.
  void write_texts();

  /// Any thread. Throws Error for options that are out of range; tokens and lengths must have been checked. The
  /// requests are accepted together or not at all, and take one slot of the waiting queue. A request with many choices
  /// is admitted in parts, so that it need not wait until all others have ended.
  std::expected<std::vector<std::shared_ptr<Ticket>>, Refusal> submit(const std::vector<Submission>& submissions);

  /// Accepts no more requests and completes the accepted ones. Any thread.
  void drain();

  /// Returns the bytes of a page of keys and values in all layers, and of all pages together at most. Any thread.
  std::uint64_t page_bytes() const { return page_bytes_; }
  std::uint64_t cache_bytes() const { return options_.cache_bytes; }

  /// Returns a copy as of the last step. Any thread.
  SchedulerStats stats() const;

 private:
  using RequestPtr = std::unique_ptr<RunningRequest>;

  /// The tokens of a choice that the next step runs.
  struct ScheduledTokens {
    RunningRequest* request;
    Choice* choice;
    std::size_t tokens;            ///< of the text
    std::span<const int> draft{};  ///< tokens that run after them
    bool ended = false;            ///< all tokens of the text have run, before a draft is cut back

    std::size_t rows() const { return tokens + draft.size(); }
    bool ends_prompt() const { return tokens == choice->left(); }
    bool scores() const { return request->scorer && request->reads_whole(*choice); }
    bool reads_hidden() const { return request->reads_hidden(); }
  };

  /// A token that a text's logits chose, with the text that it makes certain.
  struct ChosenToken {
    GeneratedToken token;
    std::vector<ReplyPart> parts;
  };

  /// Returns whether a text may continue another one with the same tokens: not in an encoder, nor after one.
  bool continues_texts() const { return loaded_.model.spec().causal && !loaded_.model.spec().encoder; }

  std::size_t choices_of_part(std::size_t choices) const;
  void add_parts(const Submission& submission, const std::shared_ptr<Ticket>& ticket,
                 std::vector<RequestPtr>& entering) const;
  void check_fits(const GenerationRequest& request) const;
  std::optional<Refusal> refusal() const;
  void turn();
  void drop_cancelled();
  void admit();
  std::size_t pages_of(const RunningRequest& request) const;
  std::uint64_t mixer_bytes_in_use() const;
  std::uint64_t draft_bytes() const;
  std::uint64_t source_bytes() const;
  void schedule_tokens();
  void schedule_prompts(std::size_t budget);
  void draft();
  void drop_drafts();
  bool begins_like_another(const RunningRequest& request, const Choice& choice) const;
  bool reads_from_disk(const RunningRequest& request, const Choice& choice);
  void begin(RunningRequest& request, Choice& choice);
  void store(std::span<const int> tokens, const std::string& salt, const model::SequenceState& state);
  bool drop_oldest_text();
  void drop_all_texts();
  bool make_room();
  std::uint64_t bytes_of_step() const;
  bool preempt_last();
  void step();
  void choose();
  std::vector<ChosenToken> choose_tokens(const ScheduledTokens& scheduled) const;
  void take(const ScheduledTokens& scheduled, std::vector<ChosenToken> tokens);
  void take(RunningRequest& request, Choice& choice, ChosenToken chosen);
  void end_prompt(const ScheduledTokens& scheduled);
  void end_choice(RunningRequest& request, Choice& choice, GenerateResult::Finish finish);
  void fail(RunningRequest& request, Failure failure, const std::string& message);
  void fail_running(const std::string& message);
  void fail_all();
  void remove_ended();
  void publish();
  double expected_wait() const;

  const engine::LoadedModel& loaded_;
  SchedulerOptions options_;
  model::SequenceState root_;  ///< without tokens; its pages hold the model's prefix, which all sequences share
  std::uint64_t page_bytes_;
  std::uint64_t mixer_bytes_;         ///< of each state, in a running text or in the prefix cache
  std::uint64_t source_token_bytes_;  ///< of a token of a source text
  std::size_t context_length_;

  std::atomic<std::size_t> waiting_slots_taken_ = 0;  ///< by submissions with a waiting request
  mutable std::mutex mutex_;
  FairQueue<RequestPtr> waiting_;
  bool draining_ = false;
  bool stopping_ = false;
  SchedulerStats published_;

  // Used only by the engine's thread.
  std::vector<RequestPtr> running_;         ///< in the order of admission
  std::vector<ScheduledTokens> scheduled_;  ///< generating texts first
  std::vector<engine::Sequence*> batch_;
  PrefixCache prefix_cache_;
  PromptPace pace_;
  std::optional<engine::DraftModel> draft_model_;
  std::optional<engine::HeadDrafter> head_drafter_;
  engine::Drafter* drafter_ = nullptr;              ///< one of these; null: drafts come from the texts only
  std::optional<engine::Speculation> speculation_;  ///< none: nothing is drafted
  std::vector<engine::DraftedText> drafted_;
  std::size_t steps_without_drafts_ = 0;  ///< to come, because the memory was short
  bool others_wait_ = false;              ///< another model's texts wait for the end of the step
  SchedulerStats stats_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SCHEDULER_SCHEDULER_H_
