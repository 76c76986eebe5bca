// Several models on one thread that computes.
#include "serve/scheduler/engine_loop.h"

#include <doctest/doctest.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/loaded_model.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast::serve {
namespace {

/// The tokens of a request with one text.
class TokenSink : public RequestListener {
 public:
  void on_token(std::size_t /*choice*/, std::vector<ReplyPart>&& /*parts*/, const GeneratedToken* token) override {
    if (token != nullptr) tokens_.push_back(token->id);
  }
  void on_end(const RequestUsage& /*usage*/) override { end(); }
  void on_failure(Failure failure, const std::string& /*message*/) override {
    failure_ = failure;
    end();
  }

  const std::vector<int>& wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_; });
    return tokens_;
  }
  std::optional<Failure> failure() {
    wait();
    return failure_;
  }

 private:
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  std::vector<int> tokens_;
  std::optional<Failure> failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
};

/// A loop with its thread.
class LoopThread {
 public:
  LoopThread()
      : thread_([this] {
          loop.run([](const Scheduler&, const std::exception_ptr& failure) { std::rethrow_exception(failure); });
        }) {}
  ~LoopThread() {
    loop.stop();
    thread_.join();
  }
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

  SchedulerOptions options() {
    return {.cache_bytes = std::uint64_t{1} << 26, .on_accepted = [this] { loop.wake(); }};
  }

  EngineLoop loop;

 private:
  std::thread thread_;
};

std::shared_ptr<TokenSink> generate(Scheduler& scheduler, int first, std::size_t tokens) {
  GenerationRequest request;
  for (int i = 0; i < 40; ++i) request.prompt.push_back((first + i) % 50);
  request.options.max_tokens = tokens;
  request.options.temperature = 0.8;
  request.options.seed = 3;
  request.options.ignore_eos = true;
  auto sink = std::make_shared<TokenSink>();
  REQUIRE(scheduler.submit({{.request = request, .listener = sink}}).has_value());
  return sink;
}

std::vector<std::filesystem::path> two_models(const test::TemporaryDirectory& folder) {
  test::TinyModel long_context = test::read_model(test::golden_model("llama3"));
  long_context.config["max_position_embeddings"] = 512;
  long_context.config.erase("rope_scaling");
  return {long_context.write(folder.path() / "a"), test::random_model().write(folder.path() / "b")};
}

TEST_CASE("two models in one loop answer as each does alone") {
  const test::TemporaryDirectory folder;
  const std::vector<std::filesystem::path> paths = two_models(folder);
  const engine::LoadedModel a(paths[0]);
  const engine::LoadedModel b(paths[1]);
  std::vector<std::vector<int>> alone;
  for (const engine::LoadedModel* loaded : {&a, &b}) {
    LoopThread thread;
    Scheduler scheduler(*loaded, thread.options());
    thread.loop.add(scheduler);
    for (int i = 0; i < 4; ++i) alone.push_back(generate(scheduler, i, 20)->wait());
    thread.loop.remove(scheduler);
  }
  LoopThread thread;
  Scheduler first(a, thread.options());
  Scheduler second(b, thread.options());
  thread.loop.add(first);
  thread.loop.add(second, 2);
  std::vector<std::shared_ptr<TokenSink>> together;
  for (Scheduler* scheduler : {&first, &second}) {
    for (int i = 0; i < 4; ++i) together.push_back(generate(*scheduler, i, 20));
  }
  for (std::size_t i = 0; i < alone.size(); ++i) {
    CAPTURE(i);
    CHECK(together[i]->wait() == alone[i]);
  }
  thread.loop.remove(first);
  thread.loop.remove(second);
}

TEST_CASE("a model can be removed while another one generates") {
  const test::TemporaryDirectory folder;
  const std::vector<std::filesystem::path> paths = two_models(folder);
  const engine::LoadedModel a(paths[0]);
  const engine::LoadedModel b(paths[1]);
  LoopThread thread;
  Scheduler stays(a, thread.options());
  thread.loop.add(stays);
  const auto goes_on = generate(stays, 0, 400);
  for (int i = 0; i < 3; ++i) {
    Scheduler leaves(b, thread.options());
    thread.loop.add(leaves);
    CHECK(generate(leaves, i, 5)->wait().size() == 5);
    thread.loop.remove(leaves);
  }
  CHECK(goes_on->wait().size() == 400);
  thread.loop.remove(stays);
}

TEST_CASE("a loop that has ended ends the requests of all models and accepts no more") {
  const test::TemporaryDirectory folder;
  const std::vector<std::filesystem::path> paths = two_models(folder);
  const engine::LoadedModel a(paths[0]);
  std::optional<LoopThread> thread(std::in_place);
  Scheduler scheduler(a, {});
  thread->loop.add(scheduler);
  thread->loop.drain();
  CHECK_FALSE(scheduler.submit({{.request = {.prompt = {1}}, .listener = std::make_shared<TokenSink>()}}).has_value());
  Scheduler late(a, {});
  thread->loop.add(late);
  CHECK_FALSE(late.submit({{.request = {.prompt = {1}}, .listener = std::make_shared<TokenSink>()}}).has_value());
  thread->loop.remove(scheduler);
  thread->loop.remove(late);
}

}  // namespace
}  // namespace ballast::serve
