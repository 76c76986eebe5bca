#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "ballast/serve.h"
#include "jobs/memory.h"
#include "kernels/parallel.h"
#include "serve/api/json_text.h"
#include "serve/api/sampling_defaults.h"
#include "serve/http/http_server.h"
#include "serve/log_writer.h"
#include "serve/model_files.h"
#include "serve/scheduler/cache_directory.h"
#include "serve/scheduler/disk_cache.h"
#include "serve/scheduler/engine_loop.h"
#include "serve/service/model_registry.h"
#include "serve/service/service.h"

namespace ballast {
namespace serve {
namespace {

using Log = std::function<void(const nlohmann::ordered_json&)>;

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

ServiceOptions service_options(const ServeOptions& options, Log log) {
  ServiceOptions service = {
      .log_prompts = options.log_prompts, .runtime_adapters = options.runtime_adapters, .log = std::move(log)};
  if (!options.api_keys.empty()) service.keys = ApiKeys(options.api_keys);
  for (const std::string& host : options.allowed_hosts) service.hosts.push_back(lower_case(host));
  if (is_loopback(options.host) || !service.hosts.empty()) {
    service.hosts.insert(service.hosts.end(), {"localhost", "127.0.0.1", "::1", lower_case(options.host)});
  }
  return service;
}

/// Returns the memory for all models, where there are several.
std::uint64_t models_bytes(const ServeOptions& options) {
  return options.models_bytes != 0 ? options.models_bytes : jobs::available_memory() / 5 * 4;
}

/// Returns the memory for the cache of each of several models.
std::uint64_t cache_bytes(const ServeOptions& options, std::uint64_t models_bytes) {
  constexpr std::uint64_t kPartOfModels = 8;
  return options.cache_bytes != 0 ? options.cache_bytes : models_bytes / kPartOfModels;
}

/// Returns a function that makes the prefix cache on disk of a model, all of which share the directory. That of a
/// single model is made here: its thread must be started before the computing threads are bound to cores, or it would
/// share one of them. Throws Error if the directory cannot be used.
ModelFiles::MakeDiskCache disk_caches(const ServeOptions& options, bool has_several, const Log& log) {
  if (options.cache_directory.empty()) return [] { return nullptr; };
  const auto directory = std::make_shared<CacheDirectory>(options.cache_directory, options.cache_disk_bytes);
  log({{"event", "disk_cache"},
       {"directory", directory->path().string()},
       {"files", directory->files()},
       {"bytes", directory->bytes()}});
  auto make = [directory, log] {
    return std::make_shared<DiskCache>(
        directory, [log](const std::string& line) { log({{"event", "disk_cache"}, {"problem", line}}); });
  };
  if (has_several) return make;
  return [cache = make()] { return cache; };
}

void log_ready(const ReadyModel& model, const ServeOptions& options, const HttpServer& http, const Log& log) {
  if (!model.loaded.generation_defaults.empty()) {
    nlohmann::ordered_json line = {{"event", "sampling"}, {"by", "the model; --generation-config none leaves it"}};
    line.update(defaults_json(model.loaded.generation_defaults));
    log(line);
  }
  log({{"event", "listening"},
       {"address", options.host},
       {"port", http.port()},
       {"model", model.name},
       {"cache_bytes", model.scheduler.stats().cache_budget},
       {"max_model_len", model.scheduler.context_length()}});
}

nlohmann::ordered_json names_json(const ModelRegistry& registry) {
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < registry.size(); ++i) names.push_back(registry.name(i));
  return names;
}

/// Runs the engine's loop; leads the threads that compute.
class EngineThread {
 public:
  /// `run_first` runs on the thread before the loop; an exception of it ends the server.
  EngineThread(const ThreadOptions& threads, EngineLoop& loop, ModelRegistry& registry, Service& service,
               HttpServer& http, std::function<void()> run_first)
      : threads_(threads),
        loop_(loop),
        registry_(registry),
        service_(service),
        http_(http),
        run_first_(std::move(run_first)),
        thread_([this] { run(); }) {}

  ~EngineThread() {
    registry_.close();
    loop_.stop();
    thread_.join();
    // Answers to the engine's last results are still being written.
    service_.finish();
  }

  /// Waits until the number of threads is set, which must not be done by two threads at once.
  void wait_for_threads() { threads_set_.get_future().wait(); }

  /// Throws the exception that ended the thread, if there was one.
  void rethrow() const {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void run() {
    try {
      set_threads();
      run_first_();
      loop_.run([this](const Scheduler& scheduler, const std::exception_ptr& failure) {
        if (!registry_.has_several()) std::rethrow_exception(failure);
        registry_.fail(scheduler, failure);
      });
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
    registry_.withdraw();
    http_.drain();
  }

  void set_threads() {
    const std::shared_ptr<void> done(nullptr, [this](void*) { threads_set_.set_value(); });
    use_threads(threads_);
    service_.set_compute_threads(kernels::available_threads());
  }

  const ThreadOptions& threads_;
  EngineLoop& loop_;
  ModelRegistry& registry_;
  Service& service_;
  HttpServer& http_;
  std::function<void()> run_first_;
  std::promise<void> threads_set_;
  mutable std::mutex mutex_;
  std::exception_ptr failure_;
  std::thread thread_;  ///< last: it uses the other members
};

void check_exposure(const ServeOptions& options) {
  if (is_loopback(options.host) || !options.api_keys.empty() || options.open_to_all) return;
  throw Error(options.host, "can be reached from elsewhere: give --api-keys, or --open-to-all for a server without");
}

/// Returns the time in UTC, to the second: "2026-01-31T12:00:00Z".
std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%FT%TZ", &parts)};
}

nlohmann::ordered_json outcome_json(const HttpOutcome& outcome) {
  constexpr std::size_t kLongestPath = 200;
  nlohmann::ordered_json line = {
      {"event", "request"},       {"method", outcome.method}, {"path", outcome.path.substr(0, kLongestPath)},
      {"client", outcome.client}, {"status", outcome.status}, {"seconds", std::round(outcome.seconds * 1e6) / 1e6}};
  if (!outcome.complete) line["left"] = true;
  return line;
}

void log_line(LogWriter& writer, const nlohmann::ordered_json& line) {
  nlohmann::ordered_json stamped = {{"time", time_now()}};
  stamped.update(line);
  writer.add(json_text(stamped));
}

}  // namespace
}  // namespace serve

void run_server(const std::vector<ServedModel>& models, const ServeOptions& options) {
  if (models.empty()) throw Error("models", "there is none to serve");
  serve::check_exposure(options);
  serve::LogWriter log_writer(options.log);
  const serve::Log log = [&](const nlohmann::ordered_json& line) { serve::log_line(log_writer, line); };
  serve::ServiceOptions service_options = serve::service_options(options, log);
  service_options.dropped_log_lines = [&] { return log_writer.dropped(); };
  const auto memory = std::make_shared<serve::MemoryBudget>(options.request_bytes);
  service_options.memory = memory;
  service_options.most_tokenized = options.most_tokenized;
  const bool has_several = models.size() > 1;
  if (has_several && !options.adapters.empty()) throw Error("adapters", "are of an only model, and there are several");
  const std::uint64_t models_bytes = serve::models_bytes(options);
  serve::EngineLoop loop;
  std::vector<serve::RegisteredModel> names;
  for (const ServedModel& model : models) {
    if (has_several) serve::check_served(model);
    names.push_back(serve::registered_model(model));
  }
  serve::ModelRegistry registry(
      std::move(names),
      {.any_name = options.any_model_name, .memory = models_bytes, .most_held = options.most_waiting, .log = log},
      std::make_unique<serve::ModelFiles>(
          models, options, has_several ? serve::cache_bytes(options, models_bytes) : options.cache_bytes,
          serve::disk_caches(options, has_several, log), loop,
          has_several ? serve::ModelFiles::Loading::kInBackground : serve::ModelFiles::Loading::kOnThisThread));
  serve::Service service(std::move(service_options), registry);
  serve::HttpServer http({.host = options.host,
                          .port = options.port,
                          .certificate = options.certificate,
                          .private_key = options.private_key,
                          .memory = memory,
                          .check_head = [&](const serve::HttpRequest& head) { return service.check_head(head); },
                          .on_outcome = [&](const serve::HttpOutcome& outcome) { log(serve::outcome_json(outcome)); }},
                         [&](const std::shared_ptr<serve::HttpExchange>& exchange) { service.handle(exchange); });
  if (!has_several) {
    log({{"event", "loading"}, {"address", options.host}, {"port", http.port()}, {"model", registry.name(0)}});
  }
  std::atomic<bool> draining = false;
  serve::EngineThread engine(options.threads, loop, registry, service, http, [&] {
    if (has_several) return;
    const serve::ModelLease model = registry.load_only();
    for (const NamedAdapter& adapter : options.adapters) service.add_adapter(*model, adapter.name, adapter.files);
    if (!draining) serve::log_ready(*model, options, http, log);
  });
  if (has_several) {
    engine.wait_for_threads();
    registry.start();
    log({{"event", "listening"},
         {"address", options.host},
         {"port", http.port()},
         {"models", serve::names_json(registry)},
         {"models_bytes", models_bytes}});
  }
  http.run([&] {
    if (draining || !options.stop_requested || !options.stop_requested()) return;
    draining = true;
    log({{"event", "draining"}});
    registry.withdraw();
    loop.drain();
    http.drain();
  });
  engine.rethrow();
  log({{"event", "stopped"}});
}

}  // namespace ballast
