// The models of a server: their names, which of them are loaded, and the requests that wait for one.
#ifndef BALLAST_SERVE_SERVICE_MODEL_REGISTRY_H_
#define BALLAST_SERVE_SERVICE_MODEL_REGISTRY_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "serve/api/api_error.h"
#include "serve/service/ready_model.h"

namespace ballast::serve {

/// A model in memory; its destructor frees the memory.
class ResidentModel {
 public:
  ResidentModel() = default;
  virtual ~ResidentModel() = default;
  ResidentModel(const ResidentModel&) = delete;
  ResidentModel& operator=(const ResidentModel&) = delete;

  virtual const ReadyModel& ready() const = 0;
};

/// The memory that a loaded model needs.
struct ModelMemory {
  std::uint64_t weights = 0;  ///< including those of its draft model
  std::uint64_t cache = 0;

  std::uint64_t bytes() const { return weights + cache; }
};

/// Loads models, which are known by their index in the registry. estimate() and load(): one call at a time.
class ModelLoader {
 public:
  ModelLoader() = default;
  virtual ~ModelLoader() = default;
  ModelLoader(const ModelLoader&) = delete;
  ModelLoader& operator=(const ModelLoader&) = delete;

  /// Estimates the memory from the model's files. Throws Error.
  virtual ModelMemory estimate(std::size_t model) = 0;

  /// Throws Error.
  virtual std::unique_ptr<ResidentModel> load(std::size_t model) = 0;

  /// Describes a model without loading it. Any thread. Throws Error.
  virtual ModelDescription describe(std::size_t model) const = 0;
};

/// The names of a model, and what is known about it before it is loaded.
struct RegisteredModel {
  std::string name;
  std::vector<std::string> aliases{};
  nlohmann::ordered_json about{};  ///< its entry in /v1/models
};

struct RegistryOptions {
  bool any_name = false;                         ///< an unknown name is the first model's
  std::uint64_t memory = 0;                      ///< bytes for all loaded models
  std::size_t most_held = 256;                   ///< requests that wait for a model
  std::chrono::milliseconds retry_time{10'000};  ///< after a failure, until loading is tried again
  std::function<void(const nlohmann::ordered_json&)> log{};
};

/// A request that waits for its model.
struct HeldRequest {
  /// Is called once, on any thread, with the model, or with null and the reason; both are null if there was no memory.
  /// Must not block or throw, and must not call the registry.
  std::function<void(ModelLease model, const ApiError* error)> on_ready;
};

/// With one model, load_only() loads it. Several are loaded by a thread of the registry when requests ask for them, in
/// the order of the requests; to make room, those that were used least recently are unloaded when their requests have
/// ended.
///
/// Locks: `mutex_` protects the entries. It is never held while a model is loaded or freed, a lease is created or
/// destroyed, or a callback runs.
class ModelRegistry {
 public:
  /// Throws Error if two models have the same name.
  ModelRegistry(std::vector<RegisteredModel> models, RegistryOptions options, std::unique_ptr<ModelLoader> loader);

  /// Ends like close(). All leases must be gone.
  ~ModelRegistry();
  ModelRegistry(const ModelRegistry&) = delete;
  ModelRegistry& operator=(const ModelRegistry&) = delete;

  bool has_several() const { return entries_.size() > 1; }

  /// Loads the only model on the calling thread; requests are refused before. Throws Error.
  ModelLease load_only();

  /// Starts the thread that loads several models.
  void start();

  /// Refuses all requests from now on, also those that wait. Any thread.
  void withdraw();

  /// Ends the thread, after the load in progress.
  void close();

  // Any thread. The functions that return an index or a lease throw ApiError.

  /// Returns the model with a name, which may have Ollama's tag ":latest"; the first one for an empty name.
  std::size_t find(std::string_view name) const;

  /// Returns whether a model has this name or alias.
  bool knows(std::string_view name) const;

  /// Returns the model, or null if it is not loaded: then `request` gets it later, or the reason why not.
  ModelLease acquire(std::size_t model, const std::shared_ptr<HeldRequest>& request);

  /// Drops a waiting request, whose client has left; its callback is not called.
  void forget(std::size_t model, const HeldRequest& request) noexcept;

  /// Throws ApiError (503) if no request can be accepted.
  void check_open() const;

  /// Returns the loaded models, in the order of their names on the command line.
  std::vector<ModelLease> loaded();

  /// Returns a model's entry in /v1/models: what is known about it, and its state.
  nlohmann::ordered_json about(std::size_t model) const;

  /// Returns the description of a model, for which its files are read once if it is not loaded. Throws ApiError.
  ModelDescription describe(std::size_t model);
  std::size_t size() const { return entries_.size(); }
  const std::string& name(std::size_t model) const { return entries_[model].model.name; }

  /// Sets after how much time without requests a loaded model is unloaded; nullopt: only to make room. Has no effect on
  /// an only model.
  void keep_alive(std::size_t model, std::optional<std::chrono::milliseconds> time);

  /// Unloads a model whose requests have failed because it can't go on. `failure` is the exception.
  void fail(const Scheduler& scheduler, const std::exception_ptr& failure);

 private:
  using Clock = std::chrono::steady_clock;
  using Held = std::vector<std::shared_ptr<HeldRequest>>;

  /// Why a model could not be loaded, or cannot go on.
  struct LoadFailure {
    unsigned status;
    std::string message;
    Clock::time_point time;
  };

  struct Entry {
    RegisteredModel model;
    std::unique_ptr<ResidentModel> resident{};  ///< null: not loaded
    std::uint64_t bytes = 0;                    ///< of the budget, while it is loaded
    std::size_t users = 0;                      ///< leases
    std::uint64_t last_use = 0;                 ///< number of the use
    Clock::time_point idle_since{};
    std::optional<std::chrono::milliseconds> keep_alive{};
    bool loads = false;   ///< it is being loaded
    bool leaves = false;  ///< it is unloaded when its requests have ended; new ones wait
    std::optional<LoadFailure> failure{};
    std::optional<ModelDescription> description{};  ///< of its files, until it is loaded
    Held held{};
  };

  static ApiError unavailable(const Entry& entry, unsigned status, const std::string& why);
  static ApiError failure_error(const Entry& entry);
  void check_open_locked() const;
  ModelLease lease(Entry& entry, const ReadyModel& ready, bool is_use);
  void release(Entry& entry, bool is_use) noexcept;
  void hold(Entry& entry, std::size_t model, const std::shared_ptr<HeldRequest>& request);
  template <class Condition>
  Entry* least_used(const Condition& condition);
  void run();
  void wait_for_work(std::unique_lock<std::mutex>& lock);
  bool unload_finished(std::unique_lock<std::mutex>& lock);
  std::optional<Clock::time_point> next_expiry() const;
  void load(std::unique_lock<std::mutex>& lock, std::size_t model);
  bool make_room(std::unique_lock<std::mutex>& lock, Entry& entry, std::uint64_t bytes);
  void unload(std::unique_lock<std::mutex>& lock, Entry& entry);
  void deliver(std::unique_lock<std::mutex>& lock, Entry& entry);
  void fail(std::unique_lock<std::mutex>& lock, Entry& entry, unsigned status, std::string message);
  void refuse(std::unique_lock<std::mutex>& lock, Entry& entry, const ApiError* error) noexcept;
  void log(std::unique_lock<std::mutex>& lock, const nlohmann::ordered_json& line) const;

  RegistryOptions options_;
  std::unique_ptr<ModelLoader> loader_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry> entries_;  ///< their number and names do not change
  std::deque<std::size_t> to_load_;
  std::size_t held_ = 0;  ///< requests in all entries
  std::uint64_t used_bytes_ = 0;
  std::uint64_t uses_ = 0;
  bool withdrawn_ = false;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_MODEL_REGISTRY_H_
