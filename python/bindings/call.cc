#include "python/bindings/call.h"

#include <atomic>
#include <cstddef>
#include <mutex>
#include <string_view>

#include "ballast/error.h"
#include "python/bindings/path_text.h"

namespace ballast::python {
namespace {

std::mutex threads_mutex;
ThreadOptions threads;
std::atomic<std::size_t> threads_version = 1;

/// Short enough for users and for Ctrl-C, and long enough to take no measurable time.
constexpr std::chrono::milliseconds kInterval{100};

}  // namespace

void set_threads(const ThreadOptions& options) {
  const std::scoped_lock lock(threads_mutex);
  if (options.count) threads.count = options.count;
  if (options.pin) threads.pin = options.pin;
  ++threads_version;
}

void prepare_thread() {
  guard_mapped_files();
  thread_local std::size_t prepared = 0;
  if (prepared == threads_version) return;
  const std::scoped_lock lock(threads_mutex);
  use_threads(threads);
  prepared = threads_version;
}

bool SignalCheck::operator()() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return false;
  next_ = now + kInterval;
  const nb::gil_scoped_acquire acquired;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  return true;
}

Progress JobListener::progress() {
  return [this](std::string_view stage, std::size_t done, std::size_t total) {
    const bool is_time = check_();
    if (on_progress_.is_none() || (!is_time && stage == stage_ && done < total)) return;
    stage_ = stage;
    const nb::gil_scoped_acquire acquired;
    on_progress_(path_text(stage), done, total);
  };
}

std::function<void(const std::string&)> JobListener::message() {
  return [this](const std::string& line) {
    const nb::gil_scoped_acquire acquired;
    if (!on_message_.is_none()) on_message_(path_text(line));
  };
}

}  // namespace ballast::python
