// A request gets the same tokens with any other requests.
#include "serve/scheduler/scheduler.h"

#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "ballast/generate.h"
#include "ballast/model.h"
#include "draft_head_model.h"
#include "engine/loaded_model.h"
#include "error_message.h"
#include "serve/scheduler/cache_directory.h"
#include "serve/scheduler/disk_cache.h"
#include "serve/scheduler/engine_loop.h"
#include "serve/scheduler/state_identity.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast::serve {
namespace {

constexpr std::size_t kContext = 512;

/// Writes a tiny model with a context of several pages.
std::filesystem::path model_in(const test::TemporaryDirectory& folder, const char* name = "llama3") {
  test::TinyModel model = test::read_model(test::golden_model(name));
  model.config["max_position_embeddings"] = kContext;
  model.config.erase("rope_scaling");
  return model.write(folder.path() / "model");
}

/// The result of a request.
struct Outcome {
  std::vector<std::vector<int>> tokens;
  std::vector<double> scores;
  std::vector<float> embedding;
  RequestUsage usage;
  std::optional<Failure> failure;
};

class Collector : public RequestListener {
 public:
  explicit Collector(std::size_t choices) { outcome_.tokens.resize(choices); }

  void on_prompt_scored(std::vector<GeneratedToken>&& scores) override {
    for (const GeneratedToken& score : scores) outcome_.scores.push_back(score.logprob);
  }
  void on_embedded(std::vector<float>&& embedding) override { outcome_.embedding = std::move(embedding); }
  void on_token(std::size_t choice, std::vector<ReplyPart>&& /*parts*/, const GeneratedToken* token) override {
    if (token != nullptr) outcome_.tokens[choice].push_back(token->id);
    const std::lock_guard lock(mutex_);
    begun_ = true;
    changed_.notify_all();
  }
  void on_end(const RequestUsage& usage) override {
    outcome_.usage = usage;
    end();
  }
  void on_failure(Failure failure, const std::string& /*message*/) override {
    outcome_.failure = failure;
    end();
  }

  void wait_for_token() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_ || ended_; });
  }
  const Outcome& wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_; });
    return outcome_;
  }

 private:
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  Outcome outcome_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool begun_ = false;
  bool ended_ = false;
};

/// A scheduler with a thread that works for it.
class Working {
 public:
  Working(const engine::LoadedModel& loaded, SchedulerOptions options)
      : scheduler_(loaded, waking(std::move(options))) {
    loop.add(scheduler_);
    thread_ = std::thread([this] {
      loop.run([](const Scheduler&, const std::exception_ptr& failure) { std::rethrow_exception(failure); });
    });
  }
  ~Working() {
    loop.stop();
    if (thread_.joinable()) thread_.join();
  }
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;

  std::shared_ptr<Collector> submit(const GenerationRequest& request) {
    auto collector = std::make_shared<Collector>(request.choices);
    const auto submitted = scheduler_.submit({{.request = request, .listener = collector}});
    REQUIRE(submitted.has_value());
    tickets.push_back(submitted->front());
    return collector;
  }
  Scheduler& operator*() { return scheduler_; }
  Scheduler* operator->() { return &scheduler_; }
  void join() { thread_.join(); }

  std::vector<std::shared_ptr<Ticket>> tickets;
  EngineLoop loop;

 private:
  SchedulerOptions waking(SchedulerOptions options) {
    options.on_accepted = [this] { loop.wake(); };
    return options;
  }

  Scheduler scheduler_;
  std::thread thread_;
};

GenerationRequest random_request(std::mt19937& random, std::size_t longest_prompt) {
  GenerationRequest request;
  const std::size_t length = 1 + random() % longest_prompt;
  for (std::size_t i = 0; i < length; ++i) request.prompt.push_back(static_cast<int>(random() % 60));
  request.options.max_tokens = 1 + random() % 40;
  request.options.temperature = random() % 2 == 0 ? 0 : 0.9;
  request.options.seed = random();
  request.options.ignore_eos = true;
  request.choices = 1 + random() % 3;
  if (random() % 3 == 0) {
    request.score_prompt = PromptScores{.top = 2};
    request.options.logprobs = 2;
  }
  if (random() % 4 == 0) request.salt = "salt";
  if (random() % 6 == 0) {
    request.embed = Pooling::kMean;
    request.choices = 1;
    request.score_prompt.reset();
  }
  return request;
}

void check_same(const Outcome& together, const Outcome& alone) {
  CHECK_FALSE(together.failure.has_value());
  CHECK(together.tokens == alone.tokens);
  CHECK(together.scores == alone.scores);
  CHECK(together.embedding == alone.embedding);
}

TEST_CASE("requests get the same tokens together as alone, and as without a server") {
  const test::TemporaryDirectory folder;
  const engine::LoadedModel loaded(model_in(folder));
  std::mt19937 random(3);
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 30; ++i) requests.push_back(random_request(random, 200));
  std::vector<Outcome> alone;
  for (const GenerationRequest& request : requests) {
    Working working(loaded, {});
    alone.push_back(working.submit(request)->wait());
  }
  Working working(loaded, {});
  std::vector<std::shared_ptr<Collector>> together;
  for (const GenerationRequest& request : requests) together.push_back(working.submit(request));
  const Model model(folder.path() / "model");
  Generator generator(model);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    CAPTURE(i);
    check_same(together[i]->wait(), alone[i]);
    if (requests[i].embed) continue;
    GenerateOptions options = requests[i].options;
    for (const std::vector<int>& tokens : alone[i].tokens) {
      std::vector<int> generated;
      for (const GeneratedToken& token : generator.generate(requests[i].prompt, options).tokens) {
        generated.push_back(token.id);
      }
      CHECK(tokens == generated);
      ++options.seed;
    }
  }
}

TEST_CASE("if memory is short, requests lose their pages and still get the same tokens") {
  const test::TemporaryDirectory folder;
  const engine::LoadedModel loaded(model_in(folder));
  const std::uint64_t page = Scheduler(loaded, {}).stats().page_bytes;
  std::mt19937 random(8);
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 12; ++i) {
    requests.push_back(random_request(random, 120));
    requests.back().embed.reset();
    requests.back().choices = 1;
    requests.back().options.max_tokens = 350;
  }
  std::vector<Outcome> alone;
  for (const GenerationRequest& request : requests) {
    Working working(loaded, {});
    alone.push_back(working.submit(request)->wait());
  }
  Working working(loaded, {.cache_bytes = 7 * page});
  std::vector<std::shared_ptr<Collector>> together;
  for (const GenerationRequest& request : requests) together.push_back(working.submit(request));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    CAPTURE(i);
    check_same(together[i]->wait(), alone[i]);
  }
  CHECK(working->stats().preemptions > 0);
}

TEST_CASE("texts get the same tokens with drafts as without, alone and together, and if memory is short") {
  const test::TemporaryDirectory folder;
  const engine::LoadedModel loaded(model_in(folder));
  const test::TemporaryDirectory draft_folder;
  const engine::LoadedModel draft(model_in(draft_folder));  // as good as a draft model can be
  const std::uint64_t page = Scheduler(loaded, {}).stats().page_bytes;
  std::mt19937 random(5);
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 12; ++i) {
    requests.push_back(random_request(random, 60));
    GenerationRequest& request = requests.back();
    request.embed.reset();
    request.options.max_tokens = 100 + random() % 50;
    // A prompt that says everything twice.
    const std::vector<int> once = request.prompt;
    request.prompt.insert(request.prompt.end(), once.begin(), once.end());
  }
  std::vector<Outcome> plain;
  for (const GenerationRequest& request : requests) {
    Working working(loaded, {.draft_tokens = 0});
    plain.push_back(working.submit(request)->wait());
    CHECK(working->stats().draft_tokens == 0);
  }
  for (const engine::LoadedModel* model : {static_cast<const engine::LoadedModel*>(nullptr), &draft}) {
    for (const std::uint64_t bytes : {std::uint64_t{1} << 30, 14 * page}) {
      CAPTURE(bytes);
      Working working(loaded, {.cache_bytes = bytes, .draft_tokens = 8, .draft = model});
      check_same(working.submit(requests.front())->wait(), plain.front());
      std::vector<std::shared_ptr<Collector>> together;
      for (const GenerationRequest& request : requests) together.push_back(working.submit(request));
      for (std::size_t i = 0; i < requests.size(); ++i) {
        CAPTURE(i);
        check_same(together[i]->wait(), plain[i]);
      }
      working.loop.drain();
      working.join();
      const SchedulerStats stats = working->stats();
      CHECK(stats.accepted_draft_tokens > 0);
      CHECK(stats.accepted_draft_tokens < stats.draft_tokens);
      CHECK(stats.cache_bytes <= bytes);
    }
  }
}

TEST_CASE("texts get the same tokens with a model's own draft head as without, alone and together") {
  for (const char* name : {"qwen3_next", "glm4_moe"}) {
    CAPTURE(name);
    const test::TemporaryDirectory folder;
    test::TinyModel model = test::model_with_draft_head(name);
    model.config["max_position_embeddings"] = kContext;
    const std::filesystem::path path = model.write(folder.path() / "model");
    const engine::LoadedModel plain_model(path);
    const engine::LoadedModel loaded(path, {.draft_head = true});
    CHECK(plain_model.model.draft_head() == nullptr);
    REQUIRE(loaded.model.draft_head() != nullptr);
    std::mt19937 random(6);
    std::vector<GenerationRequest> requests;
    std::vector<Outcome> plain;
    for (int i = 0; i < 8; ++i) {
      requests.emplace_back();
      for (int t = 0; t < 40; ++t) requests.back().prompt.push_back(static_cast<int>(random() % 33));
      requests.back().options.max_tokens = 60 + random() % 50;
      requests.back().options.ignore_eos = true;
      Working working(plain_model, {.draft_tokens = 0});
      plain.push_back(working.submit(requests.back())->wait());
    }
    const SchedulerStats empty = Scheduler(loaded, {}).stats();
    const model::SequenceState state = loaded.model.make_state({}, kContext);
    const std::uint64_t little = 9 * empty.page_bytes + 6 * state.mixer_bytes();
    for (const std::uint64_t bytes : {std::uint64_t{1} << 30, little}) {
      CAPTURE(bytes);
      Working working(loaded, {.cache_bytes = bytes, .draft_tokens = 4});
      check_same(working.submit(requests.front())->wait(), plain.front());
      std::vector<std::shared_ptr<Collector>> together;
      for (const GenerationRequest& request : requests) together.push_back(working.submit(request));
      for (std::size_t i = 0; i < requests.size(); ++i) {
        CAPTURE(i);
        check_same(together[i]->wait(), plain[i]);
      }
      working.loop.drain();
      working.join();
      CHECK((bytes == little || working->stats().draft_tokens > 0));
    }
  }
}

TEST_CASE("the beginning that a text shares with an earlier one is not read again, unless its salt differs") {
  const test::TemporaryDirectory folder;
  const engine::LoadedModel loaded(model_in(folder));
  Working working(loaded, {});
  GenerationRequest request;
  for (int i = 0; i < 300; ++i) request.prompt.push_back(i * 7 % 60);
  request.options.max_tokens = 4;
  request.options.ignore_eos = true;
  const Outcome first = working.submit(request)->wait();
  CHECK(first.usage.cached_tokens == 0);
  const Outcome second = working.submit(request)->wait();
  CHECK(second.usage.cached_tokens == 299);
  CHECK(second.tokens == first.tokens);
  GenerationRequest next = request;
  next.prompt.insert(next.prompt.end(), first.tokens[0].begin(), first.tokens[0].end());
  next.prompt.push_back(5);
  // All tokens but the last one, which has not run.
  CHECK(working.submit(next)->wait().usage.cached_tokens == 303);
  request.salt = "another";
  CHECK(working.submit(request)->wait().usage.cached_tokens == 0);
}

TEST_CASE(
    "a text of a hybrid continues where an earlier one ended, or is read from its beginning if it differs there") {
  for (const char* name : {"qwen3_next", "granitemoehybrid", "falcon_h1", "nemotron_h"}) {
    CAPTURE(name);
    const test::TemporaryDirectory folder;
    const engine::LoadedModel loaded(model_in(folder, name));
    const auto read_alone = [&](const GenerationRequest& request) {
      Working working(loaded, {});
      return working.submit(request)->wait();
    };
    Working working(loaded, {});
    GenerationRequest request;
    for (int i = 0; i < 300; ++i) request.prompt.push_back(i * 7 % 17);
    request.options.max_tokens = 6;
    request.options.logprobs = 2;
    request.options.ignore_eos = true;
    const Outcome first = working.submit(request)->wait();
    check_same(first, read_alone(request));
    GenerationRequest next = request;
    next.prompt.insert(next.prompt.end(), first.tokens[0].begin(), first.tokens[0].end());
    next.prompt.push_back(5);
    const Outcome second = working.submit(next)->wait();
    CHECK(second.usage.cached_tokens == 305);  // all but the last token, which has not run
    check_same(second, read_alone(next));
    next.prompt[299] = (next.prompt[299] + 1) % 17;
    const Outcome third = working.submit(next)->wait();
    CHECK(third.usage.cached_tokens == 0);
    check_same(third, read_alone(next));
  }
}

TEST_CASE("states of recurrent layers count as memory, and are evicted if memory is short") {
  const test::TemporaryDirectory folder;
  const engine::LoadedModel loaded(model_in(folder, "qwen3_next"));
  const auto read = [](Working& working, int first) {
    GenerationRequest request = {.prompt = {first, 2, 3}};
    request.options.max_tokens = 3;
    request.options.ignore_eos = true;
    return working.submit(request)->wait();
  };
  Working large(loaded, {});
  for (int first = 0; first < 16; ++first) read(large, first);
  const SchedulerStats all = large->stats();
  CHECK(all.cached_texts > 16);  // prompts, and what was written after them
  const std::uint64_t state = loaded.model.make_state({}, kContext).mixer_bytes();
  CHECK(all.mixer_bytes >= all.cached_texts * state);
  CHECK(state > 0);
  const std::uint64_t budget = 8 * (all.page_bytes + state);
  Working small(loaded, {.cache_bytes = budget});
  for (int first = 0; first < 16; ++first) {
    check_same(read(small, first), read(large, first));
    const SchedulerStats stats = small->stats();
    CHECK(stats.cache_bytes + stats.mixer_bytes <= budget + state);  // a step may exceed it by one state
  }
  CHECK_THROWS_AS(Scheduler(loaded, {.cache_bytes = 3 * all.page_bytes}), Error);
}

TEST_CASE("requests that arrive while a common prefix is processed wait for it") {
  const test::TemporaryDirectory folder;
  const engine::LoadedModel loaded(model_in(folder));
  Working working(loaded, {});
  GenerationRequest request;
  for (int i = 0; i < 300; ++i) request.prompt.push_back(i * 7 % 60);
  request.options.max_tokens = 2;
  request.options.ignore_eos = true;
  std::vector<std::shared_ptr<Collector>> collectors;
  for (int i = 0; i < 8; ++i) {
    request.prompt.back() = i;
    collectors.push_back(working.submit(request));
  }
  std::size_t read = 0;
  for (const auto& collector : collectors) read += 300 - collector->wait().usage.cached_tokens;
  CHECK(read < 2 * 300 + 8);
}

TEST_CASE("a cancelled request ends, running or waiting, and others continue") {
  const test::TemporaryDirectory folder;
  const engine::LoadedModel loaded(model_in(folder));
  Working working(loaded, {.most_running = 1});
  GenerationRequest endless;
  endless.prompt = {1, 2, 3};
  endless.options.max_tokens = kContext - 4;
  endless.options.ignore_eos = true;
  const auto running = working.submit(endless);
  const auto waiting = working.submit(endless);
  GenerationRequest last = endless;
  last.options.max_tokens = 3;
  const auto after = working.submit(last);
  running->wait_for_token();
  working.tickets[1]->cancel();
  working.tickets[0]->cancel();
  CHECK(waiting->wait().failure == Failure::kCancelled);
  const std::optional<Failure> failure = running->wait().failure;
  CHECK((!failure || *failure == Failure::kCancelled));  // it may have come to its end before
  CHECK_FALSE(after->wait().failure.has_value());
}

TEST_CASE("requests are refused when the queue is full and during shutdown") {
  const test::TemporaryDirectory folder;
  const engine::LoadedModel loaded(model_in(folder));
  Scheduler idle(loaded, {.most_waiting = 2});  // no engine thread runs
  const GenerationRequest request = {.prompt = {1, 2}};
  const auto submit = [&](Scheduler& scheduler, std::size_t count = 1) {
    return scheduler.submit({count, {.request = request, .listener = std::make_shared<Collector>(1)}});
  };
  CHECK(submit(idle, 10).value().size() == 10);
  CHECK(submit(idle).has_value());
  const auto refused = submit(idle);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().reason == "queue_full");
  CHECK(refused.error().retry_after >= 1);

  Working working(loaded, {});
  const auto accepted = working.submit(request);
  working.loop.drain();
  CHECK(submit(*working).error().reason == "draining");
  CHECK_FALSE(accepted->wait().failure.has_value());
  working.join();
}

TEST_CASE("stopping ends all requests") {
  const test::TemporaryDirectory folder;
  const engine::LoadedModel loaded(model_in(folder));
  Working working(loaded, {.most_running = 1});
  GenerationRequest endless;
  endless.prompt = {1, 2, 3};
  endless.options.max_tokens = kContext - 4;
  endless.options.ignore_eos = true;
  const auto running = working.submit(endless);
  const auto waiting = working.submit(endless);
  working.loop.stop();
  CHECK(waiting->wait().failure == Failure::kStopped);
  running->wait();
}

TEST_CASE("a request with more choices than slots runs together with another, with the same texts as alone") {
  const test::TemporaryDirectory folder;
  const engine::LoadedModel loaded(model_in(folder));
  Working working(loaded, {.most_running = 3});
  GenerationRequest running = {.prompt = {5, 6, 7}};
  running.options.max_tokens = kContext - 3;
  running.options.ignore_eos = true;
  const auto goes_on = working.submit(running);
  goes_on->wait_for_token();
  GenerationRequest request = {.prompt = {1, 2, 3}};
  request.options.max_tokens = 5;
  request.options.temperature = 0.9;
  request.options.ignore_eos = true;
  request.options.seed = 11;
  request.options.logprobs = 1;
  request.score_prompt = PromptScores{.top = 1};
  request.choices = 7;
  const auto collector = working.submit(request);
  const Outcome& all = collector->wait();
  CHECK(!all.failure);
  CHECK(all.usage.prompt_tokens == 3);
  CHECK(all.usage.generated_tokens == 35);
  CHECK(all.scores.size() == 2);
  for (std::size_t i = 0; i < 7; ++i) {
    GenerationRequest one = request;
    one.choices = 1;
    one.options.seed = 11 + i;
    CHECK(working.submit(one)->wait().tokens[0] == all.tokens[i]);
  }
  request.choices = 100;
  const auto cancelled = working.submit(request);
  working.tickets.back()->cancel();
  CHECK(cancelled->wait().failure == Failure::kCancelled);
  CHECK(!goes_on->wait().failure);
}

TEST_CASE("options out of range, and too little memory for any text, are refused") {
  const test::TemporaryDirectory folder;
  const engine::LoadedModel loaded(model_in(folder));
  Scheduler scheduler(loaded, {});
  GenerationRequest request = {.prompt = {1}};
  request.options.temperature = -1;
  const auto submit = [&] {
    return scheduler.submit({{.request = request, .listener = std::make_shared<Collector>(1)}}).has_value();
  };
  CHECK(test::error_message(submit) == test::Contains("temperature"));
  request.options.temperature = 0;
  request.options.max_tokens = kContext - 1;
  request.choices = 1000;
  Scheduler small(loaded, {.cache_bytes = 100 * scheduler.stats().page_bytes, .most_running = 1024});
  CHECK(small.most_tokens(1, 10) == kContext - 10);
  CHECK(small.most_tokens(50, 10) == 2 * 128 - 10);
  CHECK(small.most_tokens(1000, 10) == 1);
  const auto submit_many = [&] {
    return small.submit({{.request = request, .listener = std::make_shared<Collector>(1000)}}).has_value();
  };
  CHECK(test::error_message(submit_many) == test::Contains("n: 256 texts"));
  CHECK_THROWS_AS(Scheduler(loaded, {.cache_bytes = 100}), Error);
}

/// Returns options with a prefix cache on disk, like that of a server that has just started.
SchedulerOptions with_disk(const std::filesystem::path& directory, std::uint64_t cache_bytes) {
  SchedulerOptions options = {.cache_bytes = cache_bytes};
  options.disk_cache = std::make_shared<DiskCache>(std::make_shared<CacheDirectory>(directory, std::uint64_t{1} << 30),
                                                   [](const std::string& line) { FAIL_CHECK(line); });
  return options;
}

TEST_CASE("after a restart texts come back from disk with the same tokens, also together and if memory is short") {
  for (const char* name : {"llama3", "qwen3_next"}) {
    const test::TemporaryDirectory folder;
    const engine::LoadedModel loaded(model_in(folder, name));
    const SchedulerStats none = Scheduler(loaded, {}).stats();
    CHECK(!none.disk.used);
    std::mt19937 random(11);
    std::vector<GenerationRequest> requests;
    for (int i = 0; i < 12; ++i) {
      GenerationRequest& request = requests.emplace_back();
      for (int t = 0; t < 140 + 20 * i; ++t)
        request.prompt.push_back(t < 130 ? t % 16 : static_cast<int>(random() % 16));
      request.options.max_tokens = 5;
      request.options.ignore_eos = true;
      request.options.logprobs = 2;
      if (i % 5 == 0) request.score_prompt = PromptScores{.top = 2};
    }
    const auto read_alone = [&](const std::vector<GenerationRequest>& all) {
      std::vector<Outcome> outcomes;
      for (const GenerationRequest& request : all) {
        Working working(loaded, {});
        outcomes.push_back(working.submit(request)->wait());
      }
      return outcomes;
    };
    const std::vector<Outcome> alone = read_alone(requests);
    // The texts go on: those of a hybrid come back only where they ended.
    std::vector<GenerationRequest> longer = requests;
    for (std::size_t i = 0; i < longer.size(); ++i) {
      std::vector<int>& prompt = longer[i].prompt;
      prompt.insert(prompt.end(), alone[i].tokens[0].begin(), alone[i].tokens[0].end());
      prompt.push_back(static_cast<int>(i));
    }
    const std::vector<Outcome> longer_alone = read_alone(longer);
    const std::uint64_t small = 9 * none.page_bytes + 8 * loaded.model.make_state({}, kContext).mixer_bytes();
    for (const std::uint64_t bytes : {std::uint64_t{1} << 30, small}) {
      CAPTURE(name);
      CAPTURE(bytes);
      const std::filesystem::path cache = folder / std::to_string(bytes);
      std::uint64_t hits = 0;
      for (int start = 0; start < 3; ++start) {
        Working working(loaded, with_disk(cache, bytes));
        std::vector<std::shared_ptr<Collector>> together;
        for (const GenerationRequest& request : start == 0 ? requests : longer) {
          together.push_back(working.submit(request));
        }
        for (std::size_t i = 0; i < requests.size(); ++i) {
          CAPTURE(i);
          check_same(together[i]->wait(), start == 0 ? alone[i] : longer_alone[i]);
        }
        working.loop.drain();
        working.join();
        working->write_texts();
        const SchedulerStats stats = working->stats();
        hits = stats.disk.hits;
        CHECK(stats.disk.used);
        CHECK(stats.disk.files > 0);
        CHECK(stats.disk.unreadable == 0);
        CHECK(stats.cache_bytes + stats.mixer_bytes <= bytes);
      }
      CHECK(hits > 500);
    }
  }
}

TEST_CASE("a text that was read before a restart is not read again, unless its salt differs") {
  const test::TemporaryDirectory folder;
  const engine::LoadedModel loaded(model_in(folder));
  GenerationRequest request;
  for (int i = 0; i < 300; ++i) request.prompt.push_back(i * 7 % 60);
  request.options.max_tokens = 4;
  request.options.ignore_eos = true;
  request.salt = "mine";
  const auto read = [&](const std::string& salt) {
    Working working(loaded, with_disk(folder / "cache", std::uint64_t{1} << 30));
    GenerationRequest salted = request;
    salted.salt = salt;
    const Outcome outcome = working.submit(salted)->wait();
    working.loop.drain();
    working.join();
    working->write_texts();
    return outcome;
  };
  const Outcome first = read("mine");
  CHECK(first.usage.cached_tokens == 0);
  const Outcome second = read("mine");
  CHECK(second.usage.cached_tokens == 256);
  check_same(second, first);
  CHECK(read("yours").usage.cached_tokens == 0);
  CHECK(read("yours").usage.cached_tokens == 256);
}

TEST_CASE("a model's states are not found after its file or an option has changed") {
  const test::TemporaryDirectory folder;
  const std::filesystem::path path = model_in(folder);
  const auto identity = [&](CacheOptions::Type type = CacheOptions::Type::kF16) {
    const engine::LoadedModel loaded(path);
    return state_identity(loaded, loaded.model.make_state({.type = type}, kContext));
  };
  const std::string first = identity();
  CHECK(identity() == first);
  CHECK(identity(CacheOptions::Type::kF32) != first);
  CHECK(identity(CacheOptions::Type::kInt8) != first);
  // Another value, with the same size and time.
  const std::filesystem::path weights = path / "model.safetensors";
  const auto time = std::filesystem::last_write_time(weights);
  std::string content = test::read_file(weights);
  content[content.size() - 3] = static_cast<char>(content[content.size() - 3] ^ 1);
  test::write_file(weights, content);
  std::filesystem::last_write_time(weights, time);
  CHECK(identity() != first);
  content[content.size() - 3] = static_cast<char>(content[content.size() - 3] ^ 1);
  test::write_file(weights, content);
  std::filesystem::last_write_time(weights, time);
  CHECK(identity() == first);
  std::filesystem::last_write_time(weights, time + std::chrono::seconds(1));
  CHECK(identity() != first);
}

}  // namespace
}  // namespace ballast::serve
