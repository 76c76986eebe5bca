#include "serve/scheduler/scheduler.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "ballast/error.h"
#include "engine/sampling.h"
#include "kernels/attention/key_value_pages.h"
#include "kernels/clock.h"
#include "kernels/machine.h"
#include "kernels/parallel.h"
#include "serve/scheduler/state_identity.h"

namespace ballast::serve {
namespace {

using kernels::kPageTokens;
using kernels::pages_for;

// Tokens that are read and generated for a user before it is the next user's turn.
constexpr std::size_t kTurnTokens = 4096;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::size_t common_length(std::span<const int> a, std::span<const int> b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

/// Returns how many tokens of one text fit the cache. One page is reserved for tokens kept in F16, and one for
/// copy-on-write.
std::size_t tokens_that_fit(std::size_t context_length, const model::SequenceState& state, std::uint64_t cache_bytes) {
  constexpr std::size_t kSparePages = 2;
  const std::uint64_t page_bytes = state.cache().page_bytes();
  const std::uint64_t least = state.mixer_bytes() + (kSparePages + 1) * page_bytes;
  if (cache_bytes < least) {
    throw Error("cache memory", std::to_string(cache_bytes) + " bytes hold no text: " + std::to_string(least) +
                                    " are the least for " + std::to_string(kPageTokens) + " tokens");
  }
  if (page_bytes == 0) return context_length;
  const std::uint64_t pages = (cache_bytes - state.mixer_bytes()) / page_bytes;
  return static_cast<std::size_t>(std::min<std::uint64_t>(context_length, (pages - kSparePages) * kPageTokens));
}

}  // namespace

Scheduler::Scheduler(const engine::LoadedModel& loaded, const SchedulerOptions& options)
    : loaded_(loaded),
      options_(options),
      root_(loaded.model.make_state({.type = options.cache_type}, loaded.model.context_length())),
      page_bytes_(root_.cache().page_bytes()),
      mixer_bytes_(root_.mixer_bytes()),
      source_token_bytes_(loaded.model.source_token_bytes()),
      context_length_(tokens_that_fit(loaded.model.context_length(), root_, options.cache_bytes)),
      waiting_(kTurnTokens),
      pace_(options.target_itl, model::Model::kPassTokens) {
  engine::check_draft_tokens(options.draft_tokens);
  if (options.draft != nullptr) {
    draft_model_.emplace(loaded, *options.draft);
    draft_model_->use_cache({.type = options.cache_type});
    drafter_ = &*draft_model_;
  } else if (options.draft_tokens > 0 && loaded.model.draft_head() != nullptr) {
    head_drafter_.emplace(loaded.model);
    drafter_ = &*head_drafter_;
  }
  if (options.draft_tokens > 0) speculation_.emplace(options.draft_tokens, drafter_);
  stats_.cache_budget = options.cache_bytes;
  stats_.page_bytes = page_bytes_;
  stats_.finished = {{"stop", 0}, {"length", 0}, {"abort", 0}, {"error", 0}};
  published_ = stats_;
  if (!continues_texts()) options_.disk_cache = nullptr;
  constexpr std::uint64_t kPartThatWaits = 4;
  if (options_.disk_cache) {
    options_.disk_cache->attach(state_identity(loaded, root_), root_, options.cache_bytes / kPartThatWaits);
  }
}

std::expected<std::vector<std::shared_ptr<Ticket>>, Refusal> Scheduler::submit(
    const std::vector<Submission>& submissions) {
  const std::shared_ptr<void> slot(nullptr, [this](void*) { --waiting_slots_taken_; });
  ++waiting_slots_taken_;
  std::vector<std::shared_ptr<Ticket>> tickets;
  std::vector<RequestPtr> entering;
  for (const Submission& submission : submissions) {
    check_fits(submission.request);
    tickets.push_back(std::make_shared<Ticket>());
    add_parts(submission, tickets.back(), entering);
  }
  for (const RequestPtr& request : entering) request->waiting_slot = slot;
  {
    const std::lock_guard lock(mutex_);
    if (std::optional<Refusal> refused = refusal()) return std::unexpected(*std::move(refused));
    for (RequestPtr& request : entering) {
      const std::string user = request->request.user;
      const std::size_t cost = request->request.source.size() + request->request.prompt.size() +
                               request->choices.size() * request->request.options.max_tokens;
      waiting_.push(user, std::move(request), cost);
    }
  }
  if (options_.on_accepted) options_.on_accepted();
  return tickets;
}

/// Returns the number of choices per part; the choices of a part run together or not at all.
std::size_t Scheduler::choices_of_part(std::size_t choices) const {
  constexpr std::size_t kPartsOfRunning = 4;
  return std::min(choices, std::max<std::size_t>(1, options_.most_running / kPartsOfRunning));
}

void Scheduler::add_parts(const Submission& submission, const std::shared_ptr<Ticket>& ticket,
                          std::vector<RequestPtr>& entering) const {
  const GenerationRequest& all = submission.request;
  const auto whole = std::make_shared<WholeRequest>();
  const std::size_t most = choices_of_part(all.choices);
  for (std::size_t first = 0; first < all.choices; first += most) {
    GenerationRequest part = all;
    part.choices = std::min(most, all.choices - first);
    part.options.seed += first;
    if (first > 0) part.score_prompt = {};
    entering.push_back(
        std::make_unique<RunningRequest>(loaded_, std::move(part), submission.listener, ticket, options_.draft_tokens));
    entering.back()->first_choice = first;
    entering.back()->whole = whole;
    if (first > 0) entering.back()->usage.prompt_tokens = 0;  // the prompt is counted once
    ++whole->open;
  }
}

std::size_t Scheduler::most_tokens(std::size_t choices, std::size_t prompt_tokens) const {
  choices = choices_of_part(choices);
  std::size_t longest = context_length_;
  if (choices > 1 && page_bytes_ > 0) {
    const std::uint64_t each = options_.cache_bytes / choices;
    longest = std::min(longest, (each - std::min(each, mixer_bytes_)) / page_bytes_ * kPageTokens);
  }
  return std::max(longest, prompt_tokens + 1) - prompt_tokens;
}

/// Throws if one part does not fit the cache: the choices of a part cannot preempt each other.
void Scheduler::check_fits(const GenerationRequest& request) const {
  const std::size_t choices = choices_of_part(request.choices);
  const std::size_t longest = std::min(request.prompt.size() + request.options.max_tokens, context_length_);
  const std::uint64_t bytes = choices * (pages_for(longest) * page_bytes_ + mixer_bytes_);
  if (choices == 1 || bytes <= options_.cache_bytes) return;
  throw Error("n", std::to_string(choices) + " texts of up to " + std::to_string(longest) +
                       " tokens do not fit the memory for texts: ask for fewer, or a smaller max_tokens");
}

/// Returns why a new request is refused, or nullopt if it may be queued.
std::optional<Refusal> Scheduler::refusal() const {
  if (draining_ || stopping_) return Refusal{"draining", "the server is going down"};
  const double wait = expected_wait();
  if (waiting_slots_taken_ > options_.most_waiting) {  // includes the new request
    return Refusal{"queue_full", std::to_string(options_.most_waiting) + " requests are waiting already",
                   std::max(1.0, wait)};
  }
  if (options_.longest_wait == 0 || wait <= options_.longest_wait) return std::nullopt;
  return Refusal{"wait_too_long",
                 "it would have to wait for about " + std::to_string(static_cast<int>(wait)) + " seconds",
                 std::max(1.0, wait - options_.longest_wait)};
}

/// Estimates the seconds until a new request would begin, from the time of earlier requests.
double Scheduler::expected_wait() const {
  if (waiting_.empty() && published_.running < options_.most_running) return 0;
  const auto at_once = static_cast<double>(std::max<std::size_t>(1, published_.running));
  return static_cast<double>(waiting_.size() + 1) / at_once * published_.request_seconds;
}

void Scheduler::drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

SchedulerStats Scheduler::stats() const {
  const std::lock_guard lock(mutex_);
  SchedulerStats stats = published_;
  stats.waiting = waiting_.size();
  if (options_.disk_cache) stats.disk = options_.disk_cache->stats();  // of now: files are written after a step
  return stats;
}

bool Scheduler::has_work() const {
  const std::lock_guard lock(mutex_);
  return !stopping_ && (!waiting_.empty() || !running_.empty());
}

void Scheduler::work(bool others_wait) {
  others_wait_ = others_wait;
  try {
    turn();
  } catch (const std::exception& error) {  // no memory: running requests are lost, waiting ones continue
    fail_running(error.what());
    loaded_.model.check_files();  // without its files the model cannot run
  }
}

void Scheduler::turn() {
  drop_cancelled();
  admit();
  publish();
  do {
    schedule_tokens();
  } while (!make_room());
  if (!scheduled_.empty()) {
    step();
  } else if (options_.disk_cache && !others_wait_) {
    options_.disk_cache->wait();
  }
  remove_ended();
  publish();
}

void Scheduler::fail_running(const std::string& message) {
  drop_all_texts();
  for (const RequestPtr& request : running_) {
    request->drop_pages();
    if (!request->ended()) fail(*request, Failure::kError, message);
  }
  remove_ended();
}

void Scheduler::end() {
  fail_all();
  remove_ended();
  publish();
}

void Scheduler::measure_memory() {
  stats_.fastest_tokens = kernels::measure_read_gb_s() * 1e9 / static_cast<double>(loaded_.model.streamed_bytes());
  publish();
}

void Scheduler::drop_cancelled() {
  std::vector<RequestPtr> dropped;
  {
    const std::lock_guard lock(mutex_);
    waiting_.remove_if([&](RequestPtr& request) {
      const bool cancelled = request->ticket->cancelled();
      if (cancelled) dropped.push_back(std::move(request));
      return cancelled;
    });
  }
  for (const RequestPtr& request : dropped) fail(*request, Failure::kCancelled, "cancelled");
  for (const RequestPtr& request : running_) {
    if (request->ticket->cancelled() && !request->ended()) fail(*request, Failure::kCancelled, "cancelled");
  }
  remove_ended();
}

/// Returns the pages that the request will need when it generates; shared pages count as its own.
std::size_t Scheduler::pages_of(const RunningRequest& request) const {
  std::size_t pages = 0;
  for (const Choice& choice : request.choices) pages += choice.ended ? 0 : pages_for(choice.tokens.size() + 1);
  return pages;
}

std::uint64_t Scheduler::mixer_bytes_in_use() const {
  std::size_t states = prefix_cache_.size();
  for (const RequestPtr& request : running_) {
    states += static_cast<std::size_t>(
        std::ranges::count_if(request->choices, [](const Choice& choice) { return choice.sequence.has_value(); }));
  }
  return states * mixer_bytes_;
}

/// Returns the memory that drafts take.
std::uint64_t Scheduler::draft_bytes() const {
  std::uint64_t bytes = drafter_ != nullptr ? drafter_->cache_bytes() : 0;
  for (const RequestPtr& request : running_) {
    for (const Choice& choice : request->choices) bytes += choice.sequence ? choice.sequence->draft_bytes() : 0;
  }
  return bytes;
}

/// Admits requests while the memory holds the prompts of all, and one more page for each: a request that is admitted
/// too early would lose its pages to earlier ones.
void Scheduler::admit() {
  std::size_t pages = 0;
  std::size_t texts = 0;
  std::size_t source_tokens = 0;
  for (const RequestPtr& request : running_) {
    pages += pages_of(*request);
    texts += request->choices.size();
    source_tokens += request->request.source.size();
  }
  const Clock::time_point now = Clock::now();
  const std::lock_guard lock(mutex_);
  while (!waiting_.empty()) {
    texts += waiting_.front()->choices.size();
    pages += pages_of(*waiting_.front());
    source_tokens += waiting_.front()->request.source.size();
    const std::uint64_t bytes =
        (pages + texts) * page_bytes_ + texts * mixer_bytes_ + source_tokens * source_token_bytes_;
    const bool fits = texts <= options_.most_running && bytes <= options_.cache_bytes;
    if (!fits && !running_.empty()) return;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop();
    RunningRequest& request = *running_.back();
    request.waiting_slot.reset();
    if (request.admitted == Clock::time_point{}) {
      request.admitted = now;
      stats_.queued.add(seconds_between(request.arrived, now));
    }
  }
}

/// Chooses the tokens of the next step.
void Scheduler::schedule_tokens() {
  scheduled_.clear();
  for (const RequestPtr& request : running_) {
    for (Choice& choice : request->choices) {
      if (!choice.generates()) continue;
      scheduled_.push_back({.request = request.get(), .choice = &choice, .tokens = choice.left()});
    }
  }
  schedule_prompts(pace_.tokens(!scheduled_.empty() || others_wait_));
  if (steps_without_drafts_ > 0) {
    --steps_without_drafts_;
  } else if (speculation_) {
    draft();
  }
}

/// Adds drafts to the generating texts where they are worth their time.
void Scheduler::draft() {
  drafted_.clear();
  std::size_t rows = 0;
  bool generating = true;  // such texts come first
  for (const ScheduledTokens& scheduled : scheduled_) {
    rows += scheduled.tokens;
    Choice& choice = *scheduled.choice;
    generating = generating && choice.generates();
    if (!generating) continue;
    // The last token needs no step of its own.
    const std::size_t left = std::min(scheduled.request->request.options.max_tokens - choice.generated,
                                      context_length_ - choice.tokens.size());
    drafted_.push_back({.drafts = &choice.drafts,
                        .state = &choice.draft_state,
                        .sequence = &*choice.sequence,
                        .tokens = choice.tokens,
                        .forced = choice.output.forced_tokens(),
                        .limit = left - 1});
  }
  if (drafted_.empty()) return;
  speculation_->draft(drafted_, rows);
  for (std::size_t i = 0; i < drafted_.size(); ++i) {
    Choice& choice = *scheduled_[i].choice;
    choice.drafts.cut(choice.output.count_allowed(choice.drafts.draft()));
    scheduled_[i].draft = choice.drafts.draft();
  }
}

/// Runs the next step and some more without drafts, and frees their memory: a draft model would otherwise read the
/// texts again in each step.
void Scheduler::drop_drafts() {
  constexpr std::size_t kPause = 256;
  steps_without_drafts_ = kPause;
  for (ScheduledTokens& scheduled : scheduled_) scheduled.draft = {};
  for (const RequestPtr& request : running_) {
    for (Choice& choice : request->choices) {
      choice.draft_state.reset();
      if (choice.sequence) choice.sequence->release_draft();
    }
  }
}

/// Adds pieces of prompts, one prompt after the other, so that the first ones complete early.
void Scheduler::schedule_prompts(std::size_t budget) {
  for (const RequestPtr& request : running_) {
    Choice& first = request->choices.front();
    for (Choice& choice : request->choices) {
      if (budget == 0) return;
      if (choice.ended || choice.generates() || request->failed) continue;
      // All choices of a request have the same prompt, which the first one reads.
      if (&choice != &first && first.generated == 0 && !first.ended) break;
      if (!choice.sequence) {
        if (begins_like_another(*request, choice)) continue;
        try {
          if (reads_from_disk(*request, choice)) continue;
          begin(*request, choice);
        } catch (const std::exception& error) {  // no memory for it
          choice.sequence.reset();
          fail(*request, Failure::kError, error.what());
          break;
        }
      }
      // In an encoder every token attends to all others, so the prompt runs in one piece.
      const std::size_t tokens = loaded_.model.spec().causal ? std::min(choice.left(), budget) : choice.left();
      // begin() has also read the source text, if there is one.
      const std::size_t read = tokens + (choice.run() == 0 && &choice == &first ? request->request.source.size() : 0);
      budget -= std::min(read, budget);
      scheduled_.push_back({.request = request.get(), .choice = &choice, .tokens = tokens});
    }
  }
}

/// Returns whether a prompt of this step has a long common beginning with this one, which then waits for its pages.
bool Scheduler::begins_like_another(const RunningRequest& request, const Choice& choice) const {
  if (request.reads_whole(choice) || !continues_texts()) return false;
  const std::size_t cached = prefix_cache_.length(choice.tokens, request.request.salt);
  return std::ranges::any_of(scheduled_, [&](const ScheduledTokens& scheduled) {
    return scheduled.choice->generated == 0 && scheduled.request->request.salt == request.request.salt &&
           common_length(scheduled.choice->tokens, choice.tokens) >= cached + kPageTokens;
  });
}

/// Returns whether the beginning of the prompt is being read from disk into the prefix cache.
bool Scheduler::reads_from_disk(const RunningRequest& request, const Choice& choice) {
  if (!options_.disk_cache || request.reads_whole(choice)) return false;
  return options_.disk_cache->bring_back(choice.tokens, request.request.salt, prefix_cache_);
}

/// Stores the state of a text in the prefix cache, and on disk while it is still in memory: then its pages can be
/// dropped at any time.
void Scheduler::store(std::span<const int> tokens, const std::string& salt, const model::SequenceState& state) {
  prefix_cache_.insert(tokens, salt, state);
  if (options_.disk_cache) options_.disk_cache->save(tokens, salt, state);
}

/// Removes the least recently used text from the prefix cache. Parts of it that are not on disk, because the disk was
/// too slow, get another chance.
bool Scheduler::drop_oldest_text() {
  if (!options_.disk_cache) return prefix_cache_.drop_oldest();
  const std::optional<PrefixCache::Text> text = prefix_cache_.take_oldest();
  if (text) options_.disk_cache->save(text->tokens, text->salt, text->state);
  return text.has_value();
}

/// Drops all cached states after a failure, also those that wait to be written.
void Scheduler::drop_all_texts() {
  while (prefix_cache_.drop_oldest()) {
  }
  if (options_.disk_cache) options_.disk_cache->give_up();
}

void Scheduler::write_texts() {
  if (!options_.disk_cache) return;
  while (const std::optional<PrefixCache::Text> text = prefix_cache_.take_oldest()) {
    while (!options_.disk_cache->save(text->tokens, text->salt, text->state)) options_.disk_cache->flush();
  }
  options_.disk_cache->flush();
}

/// Takes the beginning of the prompt from the cache if possible. A prompt that is scored is read completely.
void Scheduler::begin(RunningRequest& request, Choice& choice) {
  PrefixCache::Match match;
  request.begin_reading(loaded_.model);
  if (!request.reads_whole(choice) && continues_texts()) {
    match = prefix_cache_.find(choice.tokens, request.request.salt);
    stats_.prefix_queries += choice.tokens.size();
    stats_.prefix_hits += match.length;
  }
  model::SequenceState state = match.state != nullptr ? *match.state : root_;
  if (match.state != nullptr) state.truncate(match.length);
  state.set_adapter(request.request.options.adapter);
  choice.shares_last_page = true;  // possibly with the model's prefix
  const auto begin = choice.tokens.begin();
  choice.sequence.emplace(std::move(state), std::vector<int>(begin, begin + static_cast<std::ptrdiff_t>(match.length)));
  if (loaded_.model.spec().encoder) {
    if (request.source == nullptr) {
      const model::TokenSpan source = request.request.source;
      request.source = loaded_.engine.encode({&source, 1}, root_.cache().type()).front();
    }
    choice.sequence->set_source(request.source);
  }
  if (head_drafter_ && !request.reads_hidden()) choice.sequence->keep_hidden(engine::HeadDrafter::kKeptTokens);
  if (&choice == &request.choices.front() && choice.generated == 0) request.usage.cached_tokens = match.length;
}

/// Returns the bytes of new pages of the step, including copies of shared last pages.
std::uint64_t Scheduler::bytes_of_step() const {
  std::size_t pages = 0;
  std::uint64_t before_drafts = 0;  // states of mixers
  for (const ScheduledTokens& scheduled : scheduled_) {
    if (!scheduled.draft.empty()) before_drafts += mixer_bytes_ - scheduled.choice->sequence->mark_bytes();
    const std::size_t run = root_.position() + scheduled.choice->run();  // the model's prefix comes first
    const bool copies = scheduled.choice->shares_last_page && run % kPageTokens != 0;
    pages += pages_for(run + scheduled.rows()) - pages_for(run) + (copies ? 1 : 0);
  }
  return pages * page_bytes_ + before_drafts;
}

/// Returns the bytes of what an encoder made of the running requests' source texts.
std::uint64_t Scheduler::source_bytes() const {
  std::uint64_t bytes = 0;
  for (const RequestPtr& request : running_) bytes += request->source == nullptr ? 0 : request->source->memory_bytes();
  return bytes;
}

/// Frees memory for the step's pages. Returns false if a request was preempted, which invalidates the schedule.
bool Scheduler::make_room() {
  const auto fits = [&] {
    const std::uint64_t loading = options_.disk_cache ? options_.disk_cache->loading_bytes() : 0;
    const std::uint64_t used =
        root_.cache().pool().bytes_in_use() + mixer_bytes_in_use() + draft_bytes() + source_bytes() + loading;
    return used + bytes_of_step() <= options_.cache_bytes;
  };
  while (!fits()) {
    if (drop_oldest_text() || (options_.disk_cache && options_.disk_cache->give_up())) continue;
    drop_drafts();
    return fits() || !preempt_last();
  }
  return true;
}

/// Preempts the newest request, which begins again when there is memory. Returns false if it is the only one.
bool Scheduler::preempt_last() {
  if (running_.size() < 2) return false;
  RequestPtr last = std::move(running_.back());
  running_.pop_back();
  last->drop_pages();
  ++stats_.preemptions;
  const std::lock_guard lock(mutex_);
  const std::string user = last->request.user;
  waiting_.push_first(user, std::move(last));
  return true;
}

void Scheduler::step() {
  batch_.clear();
  std::size_t prompt_tokens = 0;
  std::size_t rows = 0;
  bool others_generate = false;
  for (const ScheduledTokens& scheduled : scheduled_) {
    Choice& choice = *scheduled.choice;
    rows += scheduled.rows();
    if (choice.generates()) {
      others_generate = true;
    } else {
      prompt_tokens += scheduled.tokens;
    }
    if (scheduled.scores()) {
      scheduled.request->scorer->begin_at(choice.run());
      choice.sequence->want(scheduled.tokens, *scheduled.request->scorer);
    } else if (scheduled.reads_hidden()) {
      choice.sequence->want(scheduled.tokens, scheduled.request->hidden_reader());
    } else {
      choice.sequence->want(scheduled.ends_prompt() ? 1 + scheduled.draft.size() : 0);
    }
    const std::size_t known = choice.known();
    const model::TokenSpan tokens(choice.tokens, {}, scheduled.request->request.token_types);
    choice.sequence->append(tokens.subspan(known, choice.run() + scheduled.tokens - known));
    batch_.push_back(&*choice.sequence);
  }
  try {
    const Clock::time_point start = Clock::now();
    for (const ScheduledTokens& scheduled : scheduled_) scheduled.choice->sequence->append_draft(scheduled.draft);
    loaded_.engine.step(batch_);
    const double seconds = kernels::seconds_since(start);
    pace_.measure(prompt_tokens, others_generate, seconds);
    if (speculation_) speculation_->measure_step(rows, seconds);
  } catch (const std::exception& error) {
    // The contents of the sequences are unknown after a failure.
    drop_all_texts();
    for (const ScheduledTokens& scheduled : scheduled_) {
      scheduled.request->drop_pages();
      if (!scheduled.request->failed) fail(*scheduled.request, Failure::kError, error.what());
    }
    loaded_.model.check_files();
    return;
  }
  stats_.prompt_tokens += prompt_tokens;
  for (ScheduledTokens& scheduled : scheduled_) {
    scheduled.choice->shares_last_page = false;
    scheduled.ended = scheduled.choice->run() >= scheduled.choice->tokens.size();
  }
  choose();
}

/// Samples the next tokens of all texts whose tokens have run.
void Scheduler::choose() {
  std::vector<std::vector<ChosenToken>> tokens(scheduled_.size());
  std::vector<std::exception_ptr> failures(scheduled_.size());
  const auto choose_one = [&](std::size_t i, std::size_t) {
    const ScheduledTokens& scheduled = scheduled_[i];
    if (!scheduled.ended || scheduled.request->request.options.max_tokens == 0 || scheduled.reads_hidden()) return;
    try {
      tokens[i] = choose_tokens(scheduled);
    } catch (...) {
      failures[i] = std::current_exception();
    }
  };
  kernels::parallel_tasks(scheduled_.size(), kernels::available_threads(), choose_one);
  for (std::size_t i = 0; i < scheduled_.size(); ++i) {
    RunningRequest& request = *scheduled_[i].request;
    if (!scheduled_[i].ended || request.failed) continue;
    try {
      if (failures[i]) std::rethrow_exception(failures[i]);
      if (scheduled_[i].choice->generated == 0) end_prompt(scheduled_[i]);
      take(scheduled_[i], std::move(tokens[i]));
    } catch (const engine::NoTokenError& error) {
      fail(request, Failure::kNoToken, error.what());
    } catch (const std::exception& error) {
      fail(request, Failure::kError, error.what());
    }
  }
}

/// Samples the next tokens of a text, with the text that each makes certain.
std::vector<Scheduler::ChosenToken> Scheduler::choose_tokens(const ScheduledTokens& scheduled) const {
  Choice& choice = *scheduled.choice;
  std::vector<ChosenToken> tokens;
  choice.output.next_tokens(*choice.sequence, scheduled.draft, [&](GeneratedToken token) {
    tokens.push_back({.token = std::move(token), .parts = choice.output.take_parts()});
    return true;
  });
  // The logits of many texts' drafts would take as much memory as a model.
  if (!scheduled.draft.empty() && scheduled_.size() > 1) choice.sequence->release_logits();
  return tokens;
}

/// A prompt is complete: its state enters the prefix cache.
void Scheduler::end_prompt(const ScheduledTokens& scheduled) {
  RunningRequest& request = *scheduled.request;
  if (continues_texts()) {
    store(scheduled.choice->tokens, request.request.salt, scheduled.choice->sequence->state());
    scheduled.choice->shares_last_page = true;
  }
  if (request.classifier) request.listener->on_embedded(request.classifier->scores());
  if (request.embedder) {
    const TextVectorSpec vectors = loaded_.model.spec().text_vectors.value_or(TextVectorSpec{});
    const bool normalized = request.request.normalized.value_or(vectors.normalized);
    request.listener->on_embedded(
        request.embedder->vector(loaded_.model.text_dense(), normalized, request.request.dimensions));
  }
  if (!scheduled.scores()) return;
  request.scorer->check();
  request.listener->on_prompt_scored(std::move(request.scorer->scores()));
}

void Scheduler::take(const ScheduledTokens& scheduled, std::vector<ChosenToken> tokens) {
  RunningRequest& request = *scheduled.request;
  Choice& choice = *scheduled.choice;
  if (request.request.options.max_tokens == 0 || scheduled.reads_hidden())
    return end_choice(request, choice, GenerateResult::Finish::kLength);
  stats_.draft_tokens += scheduled.draft.size();
  stats_.accepted_draft_tokens += tokens.size() - 1;
  const bool stopped = choice.output.stopped();
  for (ChosenToken& token : tokens) take(request, choice, std::move(token));
  if (stopped) {
    end_choice(request, choice, GenerateResult::Finish::kStop);
  } else if (choice.generated >= request.request.options.max_tokens || choice.tokens.size() >= context_length_) {
    end_choice(request, choice, GenerateResult::Finish::kLength);
  }
}

void Scheduler::take(RunningRequest& request, Choice& choice, ChosenToken chosen) {
  const Clock::time_point now = Clock::now();
  if (request.usage.generated_tokens == 0) {
    stats_.first_token.add(seconds_between(request.arrived, now));
  } else if (&choice == &request.choices.front()) {
    stats_.between_tokens.add(seconds_between(request.last_token, now));
  }
  if (&choice == &request.choices.front()) request.last_token = now;
  choice.tokens.push_back(chosen.token.id);
  choice.drafts.observe(chosen.token.id);
  ++choice.generated;
  ++request.usage.generated_tokens;
  ++stats_.generated_tokens;
  request.listener->on_token(request.index_of(choice), std::move(chosen.parts), &chosen.token);
}

void Scheduler::end_choice(RunningRequest& request, Choice& choice, GenerateResult::Finish finish) {
  const std::size_t index = request.index_of(choice);
  choice.output.finish();
  std::vector<ReplyPart> parts = choice.output.take_parts();
  if (!parts.empty()) request.listener->on_token(index, std::move(parts), nullptr);
  if (continues_texts()) {
    store(std::span(choice.tokens).first(choice.run()), request.request.salt, choice.sequence->state());
  }
  choice.sequence.reset();
  choice.draft_state.reset();
  choice.ended = true;
  ++stats_.finished[finish == GenerateResult::Finish::kStop ? "stop" : "length"];
  request.listener->on_choice_end(index, {.finish = finish, .stop_string = choice.output.stop_string()});
}

/// Fails the request with all its parts.
void Scheduler::fail(RunningRequest& request, Failure failure, const std::string& message) {
  request.failed = true;
  if (std::exchange(request.whole->failed, true)) return;
  request.ticket->cancel();
  request.listener->on_failure(failure, message);
  ++stats_.finished[failure == Failure::kError ? "error" : "abort"];
}

void Scheduler::fail_all() {
  std::vector<RequestPtr> waiting;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    waiting_.remove_if([&](RequestPtr& request) {
      waiting.push_back(std::move(request));
      return true;
    });
  }
  for (const RequestPtr& request : waiting) fail(*request, Failure::kStopped, "the server was stopped");
  for (const RequestPtr& request : running_) {
    if (!request->ended()) fail(*request, Failure::kStopped, "the server was stopped");
  }
}

void Scheduler::remove_ended() {
  const Clock::time_point now = Clock::now();
  for (const RequestPtr& request : running_) {
    if (!request->ended() || request->failed) continue;
    WholeRequest& whole = *request->whole;
    whole.usage.prompt_tokens += request->usage.prompt_tokens;
    whole.usage.cached_tokens += request->first_choice == 0 ? request->usage.cached_tokens : 0;
    whole.usage.generated_tokens += request->usage.generated_tokens;
    if (--whole.open > 0 || whole.failed) continue;
    request->listener->on_end(whole.usage);
    stats_.end_to_end.add(seconds_between(request->arrived, now));
    const double seconds = seconds_between(request->admitted, now);
    double& average = stats_.request_seconds;
    average = average == 0 ? seconds : average + 0.1 * (seconds - average);
  }
  std::erase_if(running_, [](const RequestPtr& request) { return request->ended(); });
}

void Scheduler::publish() {
  stats_.running = running_.size();
  stats_.cache_bytes = root_.cache().pool().bytes_in_use();
  stats_.mixer_bytes = mixer_bytes_in_use();
  stats_.cached_texts = prefix_cache_.size();
  stats_.shared_bytes = root_.cache().pool().shared_bytes();
  if (const std::optional<ExpertFigures> experts = loaded_.model.expert_figures()) {
    stats_.experts_on_disk = true;
    stats_.experts_used = experts->used;
    stats_.experts_found = experts->found;
    stats_.expert_bytes = experts->bytes;
  }
  const std::lock_guard lock(mutex_);
  published_ = stats_;
}

}  // namespace ballast::serve
