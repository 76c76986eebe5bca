#include "serve/scheduler/scheduler.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "ballast/error.h"
#include "kernels/attention/key_value_pages.h"
#include "kernels/clock.h"
#include "kernels/machine.h"
#include "kernels/parallel.h"

namespace ballast::serve {
namespace {

using kernels::kPageTokens;
using kernels::pages_for;

// Tokens that a user may have read and generated before the next user's turn.
constexpr std::size_t kTurnTokens = 4096;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::size_t common_length(std::span<const int> a, std::span<const int> b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

/// A page is left for what a sequence keeps in F16, and one for a page that is copied to be written to.
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
      context_length_(tokens_that_fit(loaded.model.context_length(), root_, options.cache_bytes)),
      waiting_(kTurnTokens),
      pace_(options.target_itl, model::Model::kPassTokens) {
  figures_.cache_budget = options.cache_bytes;
  figures_.page_bytes = page_bytes_;
  figures_.finished = {{"stop", 0}, {"length", 0}, {"abort", 0}, {"error", 0}};
  published_ = figures_;
}

std::expected<std::vector<std::shared_ptr<Ticket>>, Refusal> Scheduler::submit(std::vector<Submission> submissions) {
  const std::shared_ptr<void> place(nullptr, [this](void*) { --places_taken_; });
  ++places_taken_;
  std::vector<std::shared_ptr<Ticket>> tickets;
  std::vector<RequestPtr> entering;
  for (Submission& submission : submissions) {
    check_fits(submission.request);
    tickets.push_back(std::make_shared<Ticket>());
    add_parts(std::move(submission), tickets.back(), entering);
  }
  for (const RequestPtr& request : entering) request->place = place;
  const std::lock_guard lock(mutex_);
  if (std::optional<Refusal> refused = refusal()) return std::unexpected(*std::move(refused));
  for (RequestPtr& request : entering) {
    const std::string user = request->request.user;
    const std::size_t cost =
        request->request.prompt.size() + request->choices.size() * request->request.options.max_tokens;
    waiting_.push(user, std::move(request), cost);
  }
  changed_.notify_one();
  return tickets;
}

/// Choices that run together or not at all.
std::size_t Scheduler::choices_of_part(std::size_t choices) const {
  constexpr std::size_t kPartsOfRunning = 4;
  return std::min(choices, std::max<std::size_t>(1, options_.most_running / kPartsOfRunning));
}

void Scheduler::add_parts(Submission submission, std::shared_ptr<Ticket> ticket,
                          std::vector<RequestPtr>& entering) const {
  const GenerationRequest& all = submission.request;
  const auto whole = std::make_shared<WholeRequest>();
  const std::size_t most = choices_of_part(all.choices);
  for (std::size_t first = 0; first < all.choices; first += most) {
    GenerationRequest part = all;
    part.choices = std::min(most, all.choices - first);
    part.options.seed += first;
    if (first > 0) part.score_prompt = {};
    entering.push_back(std::make_unique<RunningRequest>(loaded_, std::move(part), submission.listener, ticket));
    entering.back()->first_choice = first;
    entering.back()->whole = whole;
    if (first > 0) entering.back()->usage.prompt_tokens = 0;  // counted once
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

/// The choices of one part cannot give way to each other.
void Scheduler::check_fits(const GenerationRequest& request) const {
  const std::size_t choices = choices_of_part(request.choices);
  const std::size_t longest = std::min(request.prompt.size() + request.options.max_tokens, context_length_);
  const std::uint64_t bytes = choices * (pages_for(longest) * page_bytes_ + mixer_bytes_);
  if (choices == 1 || bytes <= options_.cache_bytes) return;
  throw Error("n", std::to_string(choices) + " texts of up to " + std::to_string(longest) +
                       " tokens do not fit the memory for texts: ask for fewer, or a smaller max_tokens");
}

/// Why nobody can be let in now.
std::optional<Refusal> Scheduler::refusal() const {
  if (draining_ || stopping_) return Refusal{"draining", "the server is going down"};
  const double wait = expected_wait();
  if (places_taken_ > options_.most_waiting) {  // with the one that asks
    return Refusal{"queue_full", std::to_string(options_.most_waiting) + " requests are waiting already",
                   std::max(1.0, wait)};
  }
  if (options_.longest_wait == 0 || wait <= options_.longest_wait) return std::nullopt;
  return Refusal{"wait_too_long",
                 "it would have to wait for about " + std::to_string(static_cast<int>(wait)) + " seconds",
                 std::max(1.0, wait - options_.longest_wait)};
}

/// Seconds until a request that comes now would begin, by how long others took.
double Scheduler::expected_wait() const {
  if (waiting_.empty() && published_.running < options_.most_running) return 0;
  const auto at_once = static_cast<double>(std::max<std::size_t>(1, published_.running));
  return static_cast<double>(waiting_.size() + 1) / at_once * published_.request_seconds;
}

void Scheduler::drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
  changed_.notify_one();
}

void Scheduler::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_one();
}

Figures Scheduler::figures() const {
  const std::lock_guard lock(mutex_);
  Figures figures = published_;
  figures.waiting = waiting_.size();
  return figures;
}

void Scheduler::run() {
  try {
    while (wait_for_work()) {
      try {
        turn();
      } catch (const std::exception& error) {  // no memory: what runs is lost, what waits goes on
        fail_running(error.what());
        loaded_.model.check_files();  // without them no turn comes right: the server ends
      }
    }
  } catch (...) {
    end();
    throw;
  }
  end();
}

void Scheduler::turn() {
  drop_cancelled();
  admit();
  publish();
  do {
    share_out();
  } while (!make_room());
  if (!shares_.empty()) step();
  remove_ended();
  publish();
}

void Scheduler::fail_running(const std::string& message) {
  while (prefix_cache_.drop_oldest()) {
  }
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

/// False when there will be none any more.
bool Scheduler::wait_for_work() {
  // Measuring the memory takes a moment that those who come first need not wait for.
  constexpr std::chrono::seconds kQuiet{2};
  std::unique_lock lock(mutex_);
  const auto something = [&] { return stopping_ || draining_ || !waiting_.empty() || !running_.empty(); };
  if (figures_.fastest_tokens == 0 && !changed_.wait_for(lock, kQuiet, something)) {
    lock.unlock();
    figures_.fastest_tokens = kernels::measure_read_gb_s() * 1e9 / static_cast<double>(loaded_.model.streamed_bytes());
    publish();
    lock.lock();
  }
  changed_.wait(lock, something);
  return !stopping_ && (!draining_ || !waiting_.empty() || !running_.empty());
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

/// Pages that the request will have once it generates; those that it shares with others counted as its own.
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

/// Lets requests in as long as the memory holds the prompts of all, and a page more for each of them: who came too
/// early would lose its pages to those before.
void Scheduler::admit() {
  std::size_t pages = 0;
  std::size_t texts = 0;
  for (const RequestPtr& request : running_) {
    pages += pages_of(*request);
    texts += request->choices.size();
  }
  const Clock::time_point now = Clock::now();
  const std::lock_guard lock(mutex_);
  while (!waiting_.empty()) {
    texts += waiting_.front()->choices.size();
    pages += pages_of(*waiting_.front());
    const std::uint64_t bytes = (pages + texts) * page_bytes_ + texts * mixer_bytes_;
    const bool fits = texts <= options_.most_running && bytes <= options_.cache_bytes;
    if (!fits && !running_.empty()) return;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop();
    RunningRequest& request = *running_.back();
    request.place.reset();
    if (request.admitted == Clock::time_point{}) {
      request.admitted = now;
      figures_.queued.add(seconds_between(request.arrived, now));
    }
  }
}

/// What the next step runs.
void Scheduler::share_out() {
  shares_.clear();
  for (const RequestPtr& request : running_) {
    for (Choice& choice : request->choices) {
      if (choice.generates()) shares_.push_back({.request = request.get(), .choice = &choice, .tokens = 1});
    }
  }
  share_out_prompts(pace_.tokens(!shares_.empty()));
}

/// Pieces of prompts, one after the other, so that the first ones are soon done.
void Scheduler::share_out_prompts(std::size_t budget) {
  for (const RequestPtr& request : running_) {
    Choice& first = request->choices.front();
    for (Choice& choice : request->choices) {
      if (budget == 0) return;
      if (choice.ended || choice.generates() || request->failed) continue;
      // The first one's prompt is the others', too.
      if (&choice != &first && first.generated == 0 && !first.ended) break;
      if (!choice.sequence) {
        if (begins_like_another(*request, choice)) continue;
        try {
          begin(*request, choice);
        } catch (const std::exception& error) {  // no memory for it
          choice.sequence.reset();
          fail(*request, Failure::kError, error.what());
          break;
        }
      }
      // Every token of an encoder sees all of them.
      const std::size_t tokens = loaded_.model.spec().causal ? std::min(choice.left(), budget) : choice.left();
      budget -= std::min(tokens, budget);
      shares_.push_back({.request = request.get(), .choice = &choice, .tokens = tokens});
    }
  }
}

/// Whether a prompt of this step has so much in common with it that it waits for those pages.
bool Scheduler::begins_like_another(const RunningRequest& request, const Choice& choice) const {
  if (request.reads_whole(choice)) return false;
  const std::size_t cached = prefix_cache_.length(choice.tokens, request.request.salt);
  return std::ranges::any_of(shares_, [&](const Share& share) {
    return share.choice->generated == 0 && share.request->request.salt == request.request.salt &&
           common_length(share.choice->tokens, choice.tokens) >= cached + kPageTokens;
  });
}

/// Its beginning comes from the cache as far as that has it. A prompt that is scored is read whole.
void Scheduler::begin(RunningRequest& request, Choice& choice) {
  PrefixCache::Match match;
  if (request.embedder) request.embedder->clear();
  if (!request.reads_whole(choice)) {
    match = prefix_cache_.find(choice.tokens, request.request.salt);
    figures_.prefix_queries += choice.tokens.size();
    figures_.prefix_hits += match.length;
  }
  model::SequenceState state = match.state != nullptr ? *match.state : root_;
  if (match.state != nullptr) state.truncate(match.length);
  choice.shares_last_page = true;  // perhaps with the model's prefix
  const auto begin = choice.tokens.begin();
  choice.sequence.emplace(std::move(state), std::vector<int>(begin, begin + static_cast<std::ptrdiff_t>(match.length)));
  if (&choice == &request.choices.front() && choice.generated == 0) request.usage.cached_tokens = match.length;
}

/// What the step takes: a last page that others share is copied.
std::uint64_t Scheduler::bytes_of_shares() const {
  std::size_t pages = 0;
  for (const Share& share : shares_) {
    const std::size_t run = root_.position() + share.choice->run();  // the model's prefix comes first
    const bool copies = share.choice->shares_last_page && run % kPageTokens != 0;
    pages += pages_for(run + share.tokens) - pages_for(run) + (copies ? 1 : 0);
  }
  return pages * page_bytes_;
}

/// Sees to it that the step's pages fit. False where a request had to go for that: its share is void.
bool Scheduler::make_room() {
  const std::uint64_t needed = bytes_of_shares();
  const auto fits = [&] {
    return root_.cache().pool().bytes_in_use() + mixer_bytes_in_use() + needed <= options_.cache_bytes;
  };
  while (!fits()) {
    if (prefix_cache_.drop_oldest()) continue;
    return !preempt_last();
  }
  return true;
}

/// Takes the pages of the request that came last, which begins anew when there is room. False where it is the only one.
bool Scheduler::preempt_last() {
  if (running_.size() < 2) return false;
  RequestPtr last = std::move(running_.back());
  running_.pop_back();
  last->drop_pages();
  ++figures_.preemptions;
  const std::lock_guard lock(mutex_);
  const std::string user = last->request.user;
  waiting_.push_first(user, std::move(last));
  return true;
}

void Scheduler::step() {
  batch_.clear();
  std::size_t prompt_tokens = 0;
  bool others_generate = false;
  for (const Share& share : shares_) {
    Choice& choice = *share.choice;
    if (choice.generates()) {
      others_generate = true;
    } else {
      prompt_tokens += share.tokens;
    }
    if (share.scores()) {
      share.request->scorer->begin_at(choice.run());
      choice.sequence->want(share.tokens, *share.request->scorer);
    } else if (share.embeds()) {
      choice.sequence->want(share.tokens, *share.request->embedder);
    } else {
      choice.sequence->want(share.ends_prompt() ? 1 : 0);
    }
    choice.sequence->append(std::span(choice.tokens).subspan(choice.run(), share.tokens));
    batch_.push_back(&*choice.sequence);
  }
  try {
    const Clock::time_point start = Clock::now();
    loaded_.engine.step(batch_);
    pace_.measure(prompt_tokens, others_generate, kernels::seconds_since(start));
  } catch (const std::exception& error) {
    // What the sequences hold is not sure any more.
    while (prefix_cache_.drop_oldest()) {
    }
    for (const Share& share : shares_) {
      share.request->drop_pages();
      if (!share.request->failed) fail(*share.request, Failure::kError, error.what());
    }
    loaded_.model.check_files();
    return;
  }
  figures_.prompt_tokens += prompt_tokens;
  for (const Share& share : shares_) share.choice->shares_last_page = false;
  choose(shares_);
}

/// The next tokens of all texts whose tokens have run.
void Scheduler::choose(std::span<const Share> shares) {
  std::vector<GeneratedToken> tokens(shares.size());
  std::vector<std::exception_ptr> failures(shares.size());
  const auto choose_one = [&](std::size_t i, std::size_t) {
    const Share& share = shares[i];
    Choice& choice = *share.choice;
    if (choice.left() > 0 || share.request->request.options.max_tokens == 0 || share.embeds()) return;
    try {
      tokens[i] = choice.continuation.next(choice.sequence->logits());
    } catch (...) {
      failures[i] = std::current_exception();
    }
  };
  kernels::parallel_tasks(shares.size(), kernels::available_threads(), choose_one);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    RunningRequest& request = *shares[i].request;
    if (shares[i].choice->left() > 0 || request.failed) continue;
    try {
      if (failures[i]) std::rethrow_exception(failures[i]);
      if (shares[i].choice->generated == 0) end_prompt(shares[i]);
      take(shares[i], tokens[i]);
    } catch (const std::exception& error) {
      fail(request, Failure::kError, error.what());
    }
  }
}

/// A prompt has been read: others may begin with it.
void Scheduler::end_prompt(const Share& share) {
  RunningRequest& request = *share.request;
  if (loaded_.model.spec().causal) {
    prefix_cache_.insert(share.choice->tokens, request.request.salt, share.choice->sequence->state());
    share.choice->shares_last_page = true;
  }
  if (share.embeds()) {
    const bool normalized = loaded_.model.spec().text_vectors.value_or(TextVectorSpec{}).normalized;
    request.listener->on_embedded(request.embedder->vector(loaded_.model.text_dense(), normalized));
  }
  if (!share.scores()) return;
  request.scorer->check();
  request.listener->on_prompt_scored(std::move(request.scorer->scores()));
}

void Scheduler::take(const Share& share, const GeneratedToken& token) {
  RunningRequest& request = *share.request;
  Choice& choice = *share.choice;
  const GenerateOptions& options = request.request.options;
  if (options.max_tokens == 0 || share.embeds()) return end_choice(request, choice, GenerateResult::Finish::kLength);
  const Clock::time_point now = Clock::now();
  if (request.usage.generated_tokens == 0) {
    figures_.first_token.add(seconds_between(request.arrived, now));
  } else if (&choice == &request.choices.front()) {
    figures_.between_tokens.add(seconds_between(request.last_token, now));
  }
  if (&choice == &request.choices.front()) request.last_token = now;
  choice.tokens.push_back(token.id);
  ++choice.generated;
  ++request.usage.generated_tokens;
  ++figures_.generated_tokens;
  request.listener->on_token(request.index_of(choice), choice.continuation.take_parts(), &token);
  if (choice.continuation.stopped()) {
    end_choice(request, choice, GenerateResult::Finish::kStop);
  } else if (choice.generated >= options.max_tokens || choice.tokens.size() >= context_length_) {
    end_choice(request, choice, GenerateResult::Finish::kLength);
  }
}

void Scheduler::end_choice(RunningRequest& request, Choice& choice, GenerateResult::Finish finish) {
  const std::size_t index = request.index_of(choice);
  choice.continuation.finish();
  std::vector<ReplyPart> parts = choice.continuation.take_parts();
  if (!parts.empty()) request.listener->on_token(index, std::move(parts), nullptr);
  if (loaded_.model.spec().causal) {
    prefix_cache_.insert(std::span(choice.tokens).first(choice.run()), request.request.salt, choice.sequence->state());
  }
  choice.sequence.reset();
  choice.ended = true;
  ++figures_.finished[finish == GenerateResult::Finish::kStop ? "stop" : "length"];
  request.listener->on_choice_end(index, finish);
}

/// With all its parts.
void Scheduler::fail(RunningRequest& request, Failure failure, const std::string& message) {
  request.failed = true;
  if (std::exchange(request.whole->failed, true)) return;
  request.ticket->cancel();
  request.listener->on_failure(failure, message);
  ++figures_.finished[failure == Failure::kError ? "error" : "abort"];
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
    figures_.end_to_end.add(seconds_between(request->arrived, now));
    const double seconds = seconds_between(request->admitted, now);
    double& average = figures_.request_seconds;
    average = average == 0 ? seconds : average + 0.1 * (seconds - average);
  }
  std::erase_if(running_, [](const RequestPtr& request) { return request->ended(); });
}

void Scheduler::publish() {
  figures_.running = running_.size();
  figures_.cache_bytes = root_.cache().pool().bytes_in_use();
  figures_.mixer_bytes = mixer_bytes_in_use();
  figures_.cached_texts = prefix_cache_.size();
  figures_.shared_bytes = root_.cache().pool().shared_bytes();
  if (const std::optional<ExpertFigures> experts = loaded_.model.expert_figures()) {
    figures_.experts_on_disk = true;
    figures_.experts_used = experts->used;
    figures_.experts_found = experts->found;
    figures_.expert_bytes = experts->bytes;
  }
  const std::lock_guard lock(mutex_);
  published_ = figures_;
}

}  // namespace ballast::serve
