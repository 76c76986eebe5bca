#include <array>
#include <cmath>
#include <ctime>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "ballast/error.h"
#include "ballast/serve.h"
#include "engine/loaded_model.h"
#include "files/text.h"
#include "jobs/memory.h"
#include "serve/api/json_text.h"
#include "serve/api/outliers_format.h"
#include "serve/api/sampling_defaults.h"
#include "serve/http/http_server.h"
#include "serve/log_writer.h"
#include "serve/scheduler/cache_directory.h"
#include "serve/scheduler/disk_cache.h"
#include "serve/scheduler/scheduler.h"
#include "serve/service/service.h"
#include "text/reply/reply_format.h"

namespace ballast {
namespace serve {
namespace {

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

ServiceOptions service_options(const std::filesystem::path& model, const ServeOptions& options,
                               std::function<void(const nlohmann::ordered_json&)> log) {
  ServiceOptions service = {.model_name = options.model_name,
                            .reply_format = options.reply_format,
                            .any_model_name = options.any_model_name,
                            .log_prompts = options.log_prompts,
                            .log = std::move(log)};
  if (service.model_name.empty()) {
    const std::filesystem::path whole = std::filesystem::absolute(model).lexically_normal();
    service.model_name = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  }
  if (!options.api_keys.empty()) service.keys = ApiKeys(options.api_keys);
  for (const std::string& host : options.allowed_hosts) service.hosts.push_back(lower_case(host));
  if (is_loopback(options.host) || !service.hosts.empty()) {
    service.hosts.insert(service.hosts.end(), {"localhost", "127.0.0.1", "::1", lower_case(options.host)});
  }
  return service;
}

nlohmann::ordered_json about_model(const model::Model& model, const std::string& name, const Scheduler& scheduler) {
  const std::uint64_t bytes = model.source().checkpoint().file_bytes();
  const std::size_t weights = model.all_weights();
  return {{"id", name},
          {"object", "model"},
          {"created", std::time(nullptr)},
          {"owned_by", "ballast"},
          {"max_model_len", scheduler.context_length()},
          {"bits", 8.0 * static_cast<double>(bytes) / static_cast<double>(weights)},
          {"size", bytes},
          {"parameters", weights},
          {"architecture", model.spec().architecture}};
}

/// Returns how a draft model is loaded beside a model.
ModelOptions draft_options(const ModelOptions& model) {
  return {.compute = model.compute, .tell = model.tell};
}

/// Opens the prefix cache on disk; null if there is none. Must be called before the computing threads are bound to
/// cores, since its own thread would share one of them.
std::shared_ptr<DiskCache> open_disk_cache(const ServeOptions& options,
                                           const std::function<void(const nlohmann::ordered_json&)>& log) {
  if (options.cache_directory.empty()) return nullptr;
  auto directory = std::make_shared<CacheDirectory>(options.cache_directory, options.cache_disk_bytes);
  log({{"event", "disk_cache"},
       {"directory", directory->path().string()},
       {"files", directory->files()},
       {"bytes", directory->bytes()}});
  return std::make_shared<DiskCache>(
      std::move(directory), [log](const std::string& line) { log({{"event", "disk_cache"}, {"problem", line}}); });
}

/// Loads the model and runs the scheduler; leads the threads that compute.
class EngineThread {
 public:
  EngineThread(std::filesystem::path model, const ServeOptions& options, std::shared_ptr<DiskCache> disk_cache,
               Service& service, HttpServer& http, const std::function<void(const nlohmann::ordered_json&)>& log,
               std::string name)
      : model_(std::move(model)),
        options_(options),
        disk_cache_(std::move(disk_cache)),
        service_(service),
        http_(http),
        log_(log),
        name_(std::move(name)),
        thread_([this] { run(); }) {}

  ~EngineThread() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      if (scheduler_) scheduler_->stop();
    }
    thread_.join();
    // Answers to the engine's last results are still being written.
    service_.finish();
  }

  /// Accepts no more requests; the HTTP server ends with the last answer.
  void drain() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (scheduler_) scheduler_->drain();
  }

  /// Throws the exception that ended the thread, if there was one.
  void rethrow() const {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void run() {
    try {
      load_and_work();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
    service_.withdraw();
    http_.drain();
  }

  void load_and_work() {
    use_threads(options_.threads);
    std::optional<Statistics> statistics;
    if (!options_.statistics.empty()) statistics = load_statistics(options_.statistics);
    loaded_.emplace(model_, options_.model);
    if (options_.draft) draft_.emplace(*options_.draft, draft_options(options_.model));
    if (loaded_->own_tokenizer) text::find_reply_format(*loaded_->own_tokenizer, options_.reply_format);
    const SchedulerOptions scheduling = {
        .cache_type = options_.cache_type,
        .cache_bytes = options_.cache_bytes != 0 ? options_.cache_bytes : jobs::available_memory() / 2,
        .most_running = options_.most_running,
        .most_waiting = options_.most_waiting,
        .longest_wait = options_.longest_wait,
        .target_itl = options_.target_itl,
        .draft_tokens = options_.draft_tokens,
        .draft = draft_ ? &*draft_ : nullptr,
        .disk_cache = disk_cache_};
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      scheduler_.emplace(*loaded_, scheduling);
    }
    service_.offer({.loaded = *loaded_,
                    .scheduler = *scheduler_,
                    .about = about_model(loaded_->model, name_, *scheduler_),
                    .outliers = statistics ? outliers_json(*statistics, *loaded_, options_.statistics.string())
                                           : nlohmann::ordered_json()});
    if (!loaded_->generation_defaults.empty()) {
      nlohmann::ordered_json line = {{"event", "sampling"}, {"by", "the model; --generation-config none leaves it"}};
      line.update(defaults_json(loaded_->generation_defaults));
      log_(line);
    }
    log_({{"event", "listening"},
          {"address", options_.host},
          {"port", http_.port()},
          {"model", name_},
          {"cache_bytes", scheduling.cache_bytes},
          {"max_model_len", scheduler_->context_length()}});
    scheduler_->run();
  }

  std::filesystem::path model_;
  const ServeOptions& options_;
  const std::shared_ptr<DiskCache> disk_cache_;
  Service& service_;
  HttpServer& http_;
  const std::function<void(const nlohmann::ordered_json&)>& log_;
  std::string name_;
  std::optional<engine::LoadedModel> loaded_;
  std::optional<engine::LoadedModel> draft_;
  mutable std::mutex mutex_;
  std::optional<Scheduler> scheduler_;
  bool stopping_ = false;
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

void run_server(const std::filesystem::path& model, const ServeOptions& options) {
  serve::check_exposure(options);
  serve::LogWriter log_writer(options.log);
  const std::function<void(const nlohmann::ordered_json&)> log = [&](const nlohmann::ordered_json& line) {
    serve::log_line(log_writer, line);
  };
  const std::shared_ptr<serve::DiskCache> disk_cache = serve::open_disk_cache(options, log);
  serve::ServiceOptions service_options = serve::service_options(model, options, log);
  const std::string name = service_options.model_name;
  service_options.dropped_log_lines = [&] { return log_writer.dropped(); };
  const auto memory = std::make_shared<serve::MemoryBudget>(options.request_bytes);
  service_options.memory = memory;
  service_options.most_tokenized = options.most_tokenized;
  serve::Service service(std::move(service_options));
  serve::HttpServer http({.host = options.host,
                          .port = options.port,
                          .certificate = options.certificate,
                          .private_key = options.private_key,
                          .memory = memory,
                          .heartbeat = ": reading\n\n",
                          .check_head = [&](const serve::HttpRequest& head) { return service.check_head(head); },
                          .on_outcome = [&](const serve::HttpOutcome& outcome) { log(serve::outcome_json(outcome)); }},
                         [&](const std::shared_ptr<serve::HttpExchange>& exchange) { service.handle(exchange); });
  log({{"event", "loading"}, {"address", options.host}, {"port", http.port()}, {"model", name}});
  serve::EngineThread engine(model, options, disk_cache, service, http, log, name);
  bool draining = false;
  http.run([&] {
    if (draining || !options.stop_requested || !options.stop_requested()) return;
    draining = true;
    log({{"event", "draining"}});
    service.withdraw();
    engine.drain();
    http.drain();
  });
  engine.rethrow();
  log({{"event", "stopped"}});
}

}  // namespace ballast
