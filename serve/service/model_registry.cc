#include "serve/service/model_registry.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "ballast/error.h"
#include "ballast/text.h"
#include "files/text.h"
#include "kernels/clock.h"

namespace ballast::serve {
namespace {

constexpr const char* kNotOpen = "the model is being loaded, or the server is shutting down";

void check_names(const std::vector<RegisteredModel>& models) {
  std::map<std::string, const RegisteredModel*, std::less<>> by_name;
  const auto add = [&](const std::string& name, const RegisteredModel& model) {
    if (name.empty()) throw Error("model", "has an empty name");
    if (!by_name.emplace(name, &model).second) {
      throw Error("model " + files::in_quotes(name), "is the name of two models: give them others with NAME=MODEL");
    }
  };
  for (const RegisteredModel& model : models) {
    add(model.name, model);
    for (const std::string& alias : model.aliases) add(alias, model);
  }
}

}  // namespace

ModelRegistry::ModelRegistry(std::vector<RegisteredModel> models, RegistryOptions options,
                             std::unique_ptr<ModelLoader> loader)
    : options_(std::move(options)), loader_(std::move(loader)) {
  check_names(models);
  entries_.reserve(models.size());
  for (RegisteredModel& model : models) entries_.push_back({.model = std::move(model)});
}

ModelRegistry::~ModelRegistry() {
  close();
}

ModelLease ModelRegistry::load_only() {
  std::unique_ptr<ResidentModel> resident = loader_->load(0);
  Entry& only = entries_.front();
  {
    const std::lock_guard lock(mutex_);
    only.resident = std::move(resident);
    ++only.users;
  }
  return lease(only, only.resident->ready(), true);
}

void ModelRegistry::start() {
  thread_ = std::thread([this] { run(); });
}

void ModelRegistry::withdraw() {
  std::unique_lock lock(mutex_);
  withdrawn_ = true;
  const ApiError error = ApiError(503, "the server is going down").with_code("draining");
  for (Entry& entry : entries_) refuse(lock, entry, &error);
  changed_.notify_all();
}

void ModelRegistry::close() {
  withdraw();
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool ModelRegistry::knows(std::string_view name) const {
  return std::ranges::any_of(entries_, [&](const Entry& entry) {
    return entry.model.name == name || std::ranges::find(entry.model.aliases, name) != entry.model.aliases.end();
  });
}

std::size_t ModelRegistry::find(std::string_view name) const {
  if (name.empty()) return 0;
  const auto find_exactly = [&](std::string_view wanted) {
    return std::ranges::find_if(entries_, [&](const Entry& entry) {
      return entry.model.name == wanted || std::ranges::find(entry.model.aliases, wanted) != entry.model.aliases.end();
    });
  };
  auto found = find_exactly(name);
  // Ollama's clients may add a tag.
  constexpr std::string_view kTag = ":latest";
  if (found == entries_.end() && name.ends_with(kTag)) found = find_exactly(name.substr(0, name.size() - kTag.size()));
  if (found != entries_.end()) return static_cast<std::size_t>(found - entries_.begin());
  if (options_.any_name) return 0;
  std::string names;
  for (const Entry& entry : entries_) names += (names.empty() ? "" : ", ") + files::in_quotes(entry.model.name);
  throw ApiError(404, files::concat("there is no model ", files::in_quotes(name), " here, but ", names), "model")
      .with_code("model_not_found");
}

ModelLease ModelRegistry::acquire(std::size_t model, const std::shared_ptr<HeldRequest>& request) {
  Entry& entry = entries_[model];
  const ReadyModel* ready = nullptr;
  {
    const std::lock_guard lock(mutex_);
    check_open_locked();
    if (entry.resident == nullptr || entry.leaves) {
      hold(entry, model, request);
      return nullptr;
    }
    ++entry.users;
    entry.last_use = ++uses_;
    ready = &entry.resident->ready();
  }
  return lease(entry, *ready, true);
}

/// Makes a request wait, or refuses it. The mutex is locked.
void ModelRegistry::hold(Entry& entry, std::size_t model, const std::shared_ptr<HeldRequest>& request) {
  // Each try could unload another model in vain.
  if (entry.failure && Clock::now() - entry.failure->time < options_.retry_time) throw failure_error(entry);
  if (held_ >= options_.most_held) {
    throw ApiError(503, files::concat(options_.most_held, " requests are waiting for models already"))
        .with_code("queue_full")
        .with_retry_after(1);
  }
  entry.held.push_back(request);
  ++held_;
  if (std::ranges::find(to_load_, model) == to_load_.end() && !entry.loads) {
    try {
      to_load_.push_back(model);
    } catch (...) {
      entry.held.pop_back();
      --held_;
      throw;
    }
  }
  changed_.notify_all();
}

void ModelRegistry::forget(std::size_t model, const HeldRequest& request) noexcept {
  std::shared_ptr<HeldRequest> forgotten;  // is destroyed after the lock
  const std::lock_guard lock(mutex_);
  Held& held = entries_[model].held;
  const auto found = std::ranges::find(held, &request, [](const auto& each) { return each.get(); });
  if (found == held.end()) return;
  forgotten = std::move(*found);
  held.erase(found);
  --held_;
  changed_.notify_all();
}

void ModelRegistry::check_open() const {
  const std::lock_guard lock(mutex_);
  check_open_locked();
}

void ModelRegistry::check_open_locked() const {
  if (withdrawn_ || (!has_several() && entries_.front().resident == nullptr)) {
    throw ApiError(503, kNotOpen).with_retry_after(1);
  }
}

std::vector<ModelLease> ModelRegistry::loaded() {
  std::vector<ModelLease> leases;
  leases.reserve(entries_.size());
  for (Entry& entry : entries_) {
    const ReadyModel* ready = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (entry.resident == nullptr) continue;
      ++entry.users;
      ready = &entry.resident->ready();
    }
    leases.push_back(lease(entry, *ready, false));
  }
  return leases;
}

nlohmann::ordered_json ModelRegistry::about(std::size_t model) const {
  const std::lock_guard lock(mutex_);
  const Entry& entry = entries_[model];
  nlohmann::ordered_json about = entry.model.about;
  if (entry.description) about = entry.description->about;
  if (entry.resident != nullptr) about = entry.resident->ready().description.about;
  if (!entry.model.aliases.empty()) about["aliases"] = entry.model.aliases;
  nlohmann::ordered_json& status = about["status"];
  if (entry.resident != nullptr) {
    status["value"] = entry.leaves ? "unloading" : "loaded";
  } else {
    status["value"] = entry.loads ? "loading" : "unloaded";
  }
  if (entry.failure) status["error"] = entry.failure->message;
  return about;
}

ModelDescription ModelRegistry::describe(std::size_t model) {
  Entry& entry = entries_[model];
  {
    const std::lock_guard lock(mutex_);
    check_open_locked();
    if (entry.resident != nullptr) return entry.resident->ready().description;
    if (entry.description) return *entry.description;
  }
  try {
    ModelDescription description = loader_->describe(model);
    const std::lock_guard lock(mutex_);
    entry.description = description;
    return description;
  } catch (const Error& error) {
    throw unavailable(entry, 500, error.what());
  }
}

void ModelRegistry::keep_alive(std::size_t model, std::optional<std::chrono::milliseconds> time) {
  const std::lock_guard lock(mutex_);
  if (entries_[model].resident != nullptr) entries_[model].keep_alive = time;
  changed_.notify_all();
}

void ModelRegistry::fail(const Scheduler& scheduler, const std::exception_ptr& failure) {
  std::string message = "its memory may be short";
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    message = error.what();
  }
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.resident == nullptr || &entry.resident->ready().scheduler != &scheduler) continue;
    entry.failure = {.status = 500, .message = std::move(message), .time = Clock::now()};
    entry.leaves = true;
    break;
  }
  changed_.notify_all();
}

ApiError ModelRegistry::unavailable(const Entry& entry, unsigned status, const std::string& why) {
  return ApiError(status, files::concat("the model ", files::in_quotes(entry.model.name), " is not available: ", why),
                  "model")
      .with_code(status == 507 ? "insufficient_memory" : "model_load_failed");
}

ApiError ModelRegistry::failure_error(const Entry& entry) {
  return unavailable(entry, entry.failure->status, entry.failure->message);
}

/// Returns a lease for a use that is counted already. The mutex must not be locked: if there is no memory, the use ends
/// at once.
ModelLease ModelRegistry::lease(Entry& entry, const ReadyModel& ready, bool is_use) {
  return {&ready, [this, &entry, is_use](const ReadyModel*) { release(entry, is_use); }};
}

void ModelRegistry::release(Entry& entry, bool is_use) noexcept {
  const std::lock_guard lock(mutex_);
  --entry.users;
  if (is_use) {
    entry.last_use = ++uses_;
    entry.idle_since = Clock::now();
  }
  if (entry.users == 0) changed_.notify_all();
}

/// Returns the loaded model that was used least recently of those for which `condition` holds; null if there is none.
template <class Condition>
ModelRegistry::Entry* ModelRegistry::least_used(const Condition& condition) {
  Entry* least = nullptr;
  for (Entry& entry : entries_) {
    if (entry.resident == nullptr || !condition(entry)) continue;
    if (least == nullptr || entry.last_use < least->last_use) least = &entry;
  }
  return least;
}

void ModelRegistry::run() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    std::optional<std::size_t> model;
    try {
      if (unload_finished(lock)) continue;
      if (to_load_.empty()) {
        wait_for_work(lock);
        continue;
      }
      model = to_load_.front();
      to_load_.pop_front();
      load(lock, *model);
    } catch (const std::exception&) {  // no memory
      if (!lock.owns_lock()) lock.lock();
      if (!model) continue;
      entries_[*model].loads = false;
      refuse(lock, entries_[*model], nullptr);
    }
  }
}

/// Waits for a request, or until a model is to be unloaded.
void ModelRegistry::wait_for_work(std::unique_lock<std::mutex>& lock) {
  if (const std::optional<Clock::time_point> expiry = next_expiry()) {
    changed_.wait_until(lock, *expiry);
  } else {
    changed_.wait(lock);
  }
}

/// Unloads a model that can't go on, or whose time without requests is over. Returns false if there is none.
bool ModelRegistry::unload_finished(std::unique_lock<std::mutex>& lock) {
  Entry* const finished = least_used([](const Entry& entry) {
    const bool is_over = entry.keep_alive && entry.idle_since + *entry.keep_alive <= Clock::now();
    return entry.users == 0 && (entry.leaves || is_over);
  });
  if (finished != nullptr) unload(lock, *finished);
  return finished != nullptr;
}

/// Returns when the next model without requests is to be unloaded.
std::optional<ModelRegistry::Clock::time_point> ModelRegistry::next_expiry() const {
  std::optional<Clock::time_point> next;
  for (const Entry& entry : entries_) {
    if (entry.resident == nullptr || entry.users > 0 || !entry.keep_alive) continue;
    const Clock::time_point expiry = entry.idle_since + *entry.keep_alive;
    if (!next || expiry < *next) next = expiry;
  }
  return next;
}

void ModelRegistry::load(std::unique_lock<std::mutex>& lock, std::size_t model) {
  Entry& entry = entries_[model];
  if (entry.held.empty()) return;
  if (entry.resident != nullptr && !entry.leaves) return deliver(lock, entry);
  entry.loads = true;
  lock.unlock();
  ModelMemory memory;
  std::unique_ptr<ResidentModel> resident;
  std::optional<std::string> problem;
  try {
    memory = loader_->estimate(model);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  lock.lock();
  if (problem) return fail(lock, entry, 500, *std::move(problem));
  if (memory.bytes() > options_.memory) {
    return fail(lock, entry, 507,
                files::concat("it needs about ", text::format_bytes(memory.bytes()), " (",
                              text::format_bytes(memory.weights), " of weights, ", text::format_bytes(memory.cache),
                              " of cache), and all models together may take ", text::format_bytes(options_.memory),
                              " (--models-memory, --cache-memory)"));
  }
  if (!make_room(lock, entry, memory.bytes())) {
    entry.loads = false;
    return;
  }
  log(lock, {{"event", "model_loading"},
             {"model", entry.model.name},
             {"weights_bytes", memory.weights},
             {"cache_bytes", memory.cache}});
  lock.unlock();
  const kernels::Clock::time_point start = kernels::Clock::now();
  try {
    resident = loader_->load(model);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  const double seconds = kernels::seconds_since(start);
  lock.lock();
  if (problem) return fail(lock, entry, 500, *std::move(problem));
  entry.loads = false;
  entry.failure.reset();
  entry.description.reset();
  entry.resident = std::move(resident);
  entry.bytes = memory.bytes();
  entry.idle_since = Clock::now();
  used_bytes_ += entry.bytes;
  log(lock, {{"event", "model_loaded"}, {"model", entry.model.name}, {"seconds", std::round(seconds * 1e6) / 1e6}});
  deliver(lock, entry);
}

/// Unloads models until `bytes` more fit. Returns false if no request waits for the entry any more.
bool ModelRegistry::make_room(std::unique_lock<std::mutex>& lock, Entry& entry, std::uint64_t bytes) {
  const auto is_needed = [&] { return !closing_ && !entry.held.empty(); };
  while (is_needed() && entry.resident != nullptr) {  // it can't go on, but has requests that have not ended
    if (entry.users == 0) {
      unload(lock, entry);
    } else {
      changed_.wait(lock);
    }
  }
  Entry* leaving = nullptr;  // a busy model: it gets no more requests, or this one might wait forever
  while (is_needed() && used_bytes_ + bytes > options_.memory) {
    Entry* const idle = least_used([](const Entry& other) { return other.users == 0; });
    if (idle != nullptr) {
      if (idle == leaving) leaving = nullptr;
      unload(lock, *idle);
      continue;
    }
    if (leaving == nullptr) {
      leaving = least_used([](const Entry& other) { return !other.leaves; });
      if (leaving != nullptr) leaving->leaves = true;
    }
    changed_.wait(lock);
  }
  // Another model's requests ended earlier. Those that have waited for this one are in to_load_.
  if (leaving != nullptr && !leaving->failure) leaving->leaves = false;
  return is_needed();
}

/// The mutex is unlocked while the memory is freed.
void ModelRegistry::unload(std::unique_lock<std::mutex>& lock, Entry& entry) {
  std::unique_ptr<ResidentModel> resident = std::move(entry.resident);
  entry.leaves = false;
  entry.keep_alive.reset();
  lock.unlock();
  resident.reset();
  lock.lock();
  used_bytes_ -= std::exchange(entry.bytes, 0);
  log(lock, {{"event", "model_unloaded"}, {"model", entry.model.name}});
}

/// Gives the model to the requests that wait for it. The mutex is unlocked meanwhile.
void ModelRegistry::deliver(std::unique_lock<std::mutex>& lock, Entry& entry) {
  Held held = std::exchange(entry.held, {});
  held_ -= held.size();
  entry.users += held.size();
  entry.last_use = ++uses_;
  const ReadyModel& ready = entry.resident->ready();
  lock.unlock();
  for (const std::shared_ptr<HeldRequest>& request : held) {
    ModelLease model;
    try {
      model = lease(entry, ready, true);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory; the request gets null
    }
    request->on_ready(std::move(model), nullptr);
  }
  held.clear();  // may end leases
  lock.lock();
}

/// Refuses the requests that wait for a model that cannot be loaded.
void ModelRegistry::fail(std::unique_lock<std::mutex>& lock, Entry& entry, unsigned status, std::string message) {
  entry.loads = false;
  entry.failure = {.status = status, .message = std::move(message), .time = Clock::now()};
  log(lock, {{"event", "model_failed"}, {"model", entry.model.name}, {"error", entry.failure->message}});
  const ApiError error = failure_error(entry);
  refuse(lock, entry, &error);
}

void ModelRegistry::refuse(std::unique_lock<std::mutex>& lock, Entry& entry, const ApiError* error) noexcept {
  Held held;
  held.swap(entry.held);
  held_ -= held.size();
  lock.unlock();
  for (const std::shared_ptr<HeldRequest>& request : held) request->on_ready(nullptr, error);
  held.clear();
  lock.lock();
}

/// The mutex is unlocked meanwhile.
void ModelRegistry::log(std::unique_lock<std::mutex>& lock, const nlohmann::ordered_json& line) const {
  if (!options_.log) return;
  lock.unlock();
  options_.log(line);
  lock.lock();
}

}  // namespace ballast::serve
