// Models are loaded for requests and unloaded for others, with a loader that needs no files.
#include "serve/service/model_registry.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "engine/loaded_model.h"
#include "error_message.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast::serve {
namespace {

using test::Contains;

/// What a loader did: "load 1", "unload 1". Any thread.
class Journal {
 public:
  void add(std::string line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
    changed_.notify_all();
  }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  void wait_for(const std::string& line) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, std::chrono::seconds(60),
                              [&] { return std::ranges::find(lines_, line) != lines_.end(); }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

/// All fakes have the same model; only their names differ.
class FakeResident : public ResidentModel {
 public:
  FakeResident(const engine::LoadedModel& loaded, std::size_t model, Journal& journal)
      : scheduler_(loaded, {}),
        model_(model),
        journal_(journal),
        ready_{.loaded = loaded,
               .scheduler = scheduler_,
               .name = std::to_string(model),
               .description = {.about = {{"id", model}}}} {}
  ~FakeResident() override { journal_.add("unload " + std::to_string(model_)); }

  const ReadyModel& ready() const override { return ready_; }

 private:
  Scheduler scheduler_;
  std::size_t model_;
  Journal& journal_;
  ReadyModel ready_;
};

/// Loads models of these sizes; one of size 0 cannot be loaded. May be held up.
class FakeLoader : public ModelLoader {
 public:
  FakeLoader(const engine::LoadedModel& loaded, std::vector<std::uint64_t> sizes, Journal& journal)
      : loaded_(loaded), sizes_(std::move(sizes)), journal_(journal) {}

  ModelMemory estimate(std::size_t model) override { return {.weights = sizes_[model], .cache = 0}; }
  std::unique_ptr<ResidentModel> load(std::size_t model) override {
    journal_.add("load " + std::to_string(model));
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !held_up_; });
    }
    if (sizes_[model] == 0) throw Error("model", "is broken");
    return std::make_unique<FakeResident>(loaded_, model, journal_);
  }
  ModelDescription describe(std::size_t model) const override {
    journal_.add("describe " + std::to_string(model));
    if (sizes_[model] == 0) throw Error("model", "is broken");
    return {.about = {{"id", model}, {"size", sizes_[model]}}, .chat_template = "template"};
  }

  void hold_up(bool held_up) {
    const std::lock_guard lock(mutex_);
    held_up_ = held_up;
    changed_.notify_all();
  }

 private:
  const engine::LoadedModel& loaded_;
  std::vector<std::uint64_t> sizes_;
  Journal& journal_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_up_ = false;
};

/// A request for a model, and what it got.
class Request {
 public:
  Request(ModelRegistry& registry, std::size_t model) : registry_(registry), model_(model) {
    held_->on_ready = [state = state_](ModelLease lease, const ApiError* error) {
      const std::lock_guard lock(state->mutex);
      state->lease = std::move(lease);
      if (error != nullptr) state->error = *error;
      state->is_over = true;
      state->changed.notify_all();
    };
    if (ModelLease lease = registry.acquire(model, held_)) held_->on_ready(std::move(lease), nullptr);
  }

  /// Waits for the model; returns false if it was refused.
  bool wait() {
    std::unique_lock lock(state_->mutex);
    REQUIRE(state_->changed.wait_for(lock, std::chrono::seconds(60), [&] { return state_->is_over; }));
    return state_->lease != nullptr;
  }
  bool is_over() {
    const std::lock_guard lock(state_->mutex);
    return state_->is_over;
  }
  std::string error() {
    const std::lock_guard lock(state_->mutex);
    return state_->error ? std::to_string(state_->error->status()) + " " + state_->error->what() : "";
  }
  void end() {
    ModelLease lease;  // ends after the lock
    const std::lock_guard lock(state_->mutex);
    lease = std::move(state_->lease);
  }
  void leave() { registry_.forget(model_, *held_); }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    ModelLease lease;
    std::optional<ApiError> error;
    bool is_over = false;
  };

  ModelRegistry& registry_;
  std::size_t model_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::shared_ptr<HeldRequest> held_ = std::make_shared<HeldRequest>();
};

/// Returns "503 message" of a refused request; empty if it is not refused.
template <class Action>
std::string refusal_of(const Action& action) {
  try {
    action();
  } catch (const ApiError& error) {
    return std::to_string(error.status()) + " " + error.what();
  }
  return {};
}

/// A registry of models "0", "1", ... of the given sizes.
class Fixture {
 public:
  explicit Fixture(const std::vector<std::uint64_t>& sizes, RegistryOptions options = {.memory = 100})
      : loaded_(test::random_model().write(folder_.path() / "model")) {
    std::vector<RegisteredModel> models;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      models.push_back({.name = std::to_string(i), .aliases = {"alias" + std::to_string(i)}});
    }
    auto owned = std::make_unique<FakeLoader>(loaded_, sizes, journal);
    loader = owned.get();
    registry.emplace(std::move(models), std::move(options), std::move(owned));
    registry->start();
  }

  std::string status(std::size_t model) { return registry->about(model)["status"]["value"]; }
  void wait_for_status(std::size_t model, const std::string& value) {
    while (status(model) != value) std::this_thread::yield();
  }

 private:
  test::TemporaryDirectory folder_;
  engine::LoadedModel loaded_;

 public:
  Journal journal;
  FakeLoader* loader = nullptr;
  std::optional<ModelRegistry> registry;
};

TEST_CASE("a model is found by its name, an alias and with Ollama's tag; without a name the first one") {
  Fixture fixture({1, 1, 1});
  ModelRegistry& registry = *fixture.registry;
  CHECK(registry.find("") == 0);
  CHECK(registry.find("2") == 2);
  CHECK(registry.find("2:latest") == 2);
  CHECK(registry.find("alias1") == 1);
  CHECK(registry.find("alias1:latest") == 1);
  const std::string unknown = refusal_of([&] { registry.find("3"); });
  CHECK(unknown == Contains("404"));
  CHECK(unknown == Contains("\"0\", \"1\", \"2\""));
  Fixture any({1, 1}, {.any_name = true, .memory = 100});
  CHECK(any.registry->find("3") == 0);
}

TEST_CASE("two models cannot have the same name") {
  const auto make = [](std::vector<RegisteredModel> models) {
    return test::error_message([&] { ModelRegistry(std::move(models), {}, nullptr); });
  };
  CHECK(make({{.name = "a"}, {.name = "a"}}) == Contains("\"a\": is the name of two models"));
  CHECK(make({{.name = "a"}, {.name = "b", .aliases = {"a"}}}) == Contains("\"a\": is the name of two models"));
}

TEST_CASE("a model is described without loading it, once until it is loaded") {
  Fixture fixture({10, 0});
  ModelRegistry& registry = *fixture.registry;
  for (int i = 0; i < 2; ++i) {
    const ModelDescription description = registry.describe(0);
    CHECK(description.about["size"] == 10);
    CHECK(description.chat_template == "template");
  }
  CHECK(registry.about(0)["size"] == 10);
  CHECK(fixture.status(0) == "unloaded");
  CHECK(fixture.journal.lines() == std::vector<std::string>{"describe 0"});
  Request request(registry, 0);
  CHECK(request.wait());
  CHECK(!registry.describe(0).about.contains("size"));
  CHECK(fixture.journal.lines() == std::vector<std::string>{"describe 0", "load 0"});
  CHECK(refusal_of([&] { registry.describe(1); }) == Contains("the model \"1\" is not available: model: is broken"));
}

TEST_CASE("a model is loaded once, for the first request, and stays") {
  Fixture fixture({10, 10});
  CHECK(fixture.status(1) == "unloaded");
  fixture.loader->hold_up(true);
  Request first(*fixture.registry, 1);
  Request second(*fixture.registry, 1);
  fixture.journal.wait_for("load 1");
  CHECK(fixture.status(1) == "loading");
  CHECK_FALSE(first.is_over());
  fixture.loader->hold_up(false);
  CHECK(first.wait());
  CHECK(second.wait());
  CHECK(Request(*fixture.registry, 1).wait());
  CHECK(fixture.status(1) == "loaded");
  CHECK(fixture.status(0) == "unloaded");
  CHECK(fixture.registry->loaded().size() == 1);
  CHECK(fixture.journal.lines() == std::vector<std::string>{"load 1"});
}

TEST_CASE("models without requests are unloaded by least use to make room") {
  Fixture fixture({40, 40, 40, 90});
  Request first(*fixture.registry, 0);
  CHECK(first.wait());
  first.end();
  Request second(*fixture.registry, 1);
  CHECK(second.wait());
  second.end();
  Request again(*fixture.registry, 0);
  CHECK(again.wait());
  again.end();
  CHECK(fixture.registry->loaded().size() == 2);  // looking at them is no use
  Request third(*fixture.registry, 2);
  CHECK(third.wait());
  third.end();
  CHECK(fixture.journal.lines() == std::vector<std::string>{"load 0", "load 1", "unload 1", "load 2"});
  Request large(*fixture.registry, 3);
  CHECK(large.wait());
  CHECK(fixture.journal.lines().size() == 7);
  CHECK(fixture.status(0) == "unloaded");
  CHECK(fixture.status(2) == "unloaded");
}

TEST_CASE("a model with requests is unloaded when they have ended, and new ones wait until it is loaded again") {
  Fixture fixture({60, 60});
  Request busy(*fixture.registry, 0);
  CHECK(busy.wait());
  Request other(*fixture.registry, 1);
  fixture.wait_for_status(0, "unloading");
  Request later(*fixture.registry, 0);
  CHECK_FALSE(other.is_over());
  busy.end();
  CHECK(other.wait());
  CHECK_FALSE(later.is_over());
  other.end();
  CHECK(later.wait());
  CHECK(fixture.journal.lines() == std::vector<std::string>{"load 0", "unload 0", "load 1", "unload 1", "load 0"});
}

TEST_CASE("of two busy models the one whose requests end first is unloaded, and the other goes on") {
  Fixture fixture({40, 40, 60});
  Request first(*fixture.registry, 0);
  CHECK(first.wait());
  Request second(*fixture.registry, 1);
  CHECK(second.wait());
  Request third(*fixture.registry, 2);
  fixture.wait_for_status(0, "unloading");  // it was used least recently
  Request later(*fixture.registry, 0);
  CHECK_FALSE(later.is_over());
  second.end();
  CHECK(third.wait());
  CHECK(later.wait());
  CHECK(fixture.journal.lines() == std::vector<std::string>{"load 0", "load 1", "unload 1", "load 2"});
}

TEST_CASE("a model that can't be loaded is refused with the reason, for a while without another try") {
  Fixture fixture({0, 10}, {.memory = 100, .retry_time = std::chrono::milliseconds(50)});
  Request request(*fixture.registry, 0);
  CHECK_FALSE(request.wait());
  CHECK(request.error() == Contains("500 the model \"0\" is not available: model: is broken"));
  CHECK(fixture.registry->about(0)["status"]["error"] == "model: is broken");
  CHECK(Request(*fixture.registry, 1).wait());
  const auto try_again = [&] { return refusal_of([&] { Request(*fixture.registry, 0); }); };
  while (try_again().empty()) {
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  Request later(*fixture.registry, 0);
  CHECK_FALSE(later.wait());
}

TEST_CASE("a model that is larger than the memory is refused with the figures, and unloads no other") {
  Fixture fixture({101, 10});
  CHECK(Request(*fixture.registry, 1).wait());
  Request request(*fixture.registry, 0);
  CHECK_FALSE(request.wait());
  CHECK(request.error() == Contains("507"));
  CHECK(request.error() == Contains("101 B of weights"));
  CHECK(request.error() == Contains("may take 100 B"));
  CHECK(fixture.status(1) == "loaded");
}

TEST_CASE("a client that leaves does not wait, and nothing is loaded for it") {
  Fixture fixture({60, 60, 10}, {.memory = 100, .most_held = 2});
  Request busy(*fixture.registry, 0);
  CHECK(busy.wait());
  Request waiting(*fixture.registry, 1);
  Request behind(*fixture.registry, 2);
  const auto one_more = [&] { Request(*fixture.registry, 2); };
  CHECK(refusal_of(one_more) == Contains("2 requests are waiting for models already"));
  waiting.leave();
  CHECK(behind.wait());
  busy.end();
  CHECK(Request(*fixture.registry, 0).wait());
  CHECK_FALSE(waiting.is_over());
  CHECK(fixture.journal.lines() == std::vector<std::string>{"load 0", "load 2"});
}

TEST_CASE("a model is unloaded after its time without requests") {
  Fixture fixture({10, 10});
  Request request(*fixture.registry, 0);
  CHECK(request.wait());
  fixture.registry->keep_alive(0, std::chrono::milliseconds(0));
  CHECK(fixture.status(0) == "loaded");
  request.end();
  fixture.journal.wait_for("unload 0");
  Request again(*fixture.registry, 0);
  CHECK(again.wait());
  again.end();
  CHECK(fixture.registry->loaded().size() == 1);  // the time was that of one stay
}

TEST_CASE("a model that can't go on is unloaded after its requests, and refused") {
  Fixture fixture({10, 10});
  Request request(*fixture.registry, 0);
  CHECK(request.wait());
  const ModelLease model = fixture.registry->loaded().front();
  fixture.registry->fail(model->scheduler, std::make_exception_ptr(Error("file", "has become shorter")));
  CHECK(refusal_of([&] { Request(*fixture.registry, 0); }) == Contains("has become shorter"));
  CHECK(fixture.status(0) == "unloading");
  request.end();
}

TEST_CASE("requests that wait are refused when the server goes down, also while a model is loaded") {
  Fixture fixture({10, 10});
  fixture.loader->hold_up(true);
  Request request(*fixture.registry, 0);
  fixture.journal.wait_for("load 0");
  fixture.registry->withdraw();
  CHECK_FALSE(request.wait());
  CHECK(request.error() == Contains("503"));
  CHECK_THROWS_AS(Request(*fixture.registry, 1), ApiError);
  CHECK_THROWS_AS(fixture.registry->check_open(), ApiError);
  fixture.loader->hold_up(false);
  fixture.registry->close();
}

TEST_CASE("requests of many threads get their models, with memory for one of three at a time") {
  Fixture fixture({60, 60, 60});
  std::atomic<int> got = 0;
  std::vector<std::thread> clients;
  for (std::size_t client = 0; client < 6; ++client) {
    clients.emplace_back([&, client] {
      for (std::size_t i = 0; i < 20; ++i) {
        const std::size_t model = (client + i) % 3;
        Request request(*fixture.registry, model);
        if (i % 5 == 4) request.leave();
        if (i % 5 != 4 && request.wait()) ++got;
        request.end();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  CHECK(got == 6 * 16);
}

}  // namespace
}  // namespace ballast::serve
