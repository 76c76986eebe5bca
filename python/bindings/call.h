// How a call from Python runs in the library: without the interpreter's lock, with the user's thread options, and with
// a job's progress reported to Python.
#ifndef BALLAST_PYTHON_BINDINGS_CALL_H_
#define BALLAST_PYTHON_BINDINGS_CALL_H_

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "ballast/error.h"
#include "ballast/progress.h"
#include "ballast/threads.h"

namespace ballast::python {

namespace nb = nanobind;

/// Sets the thread options of all later calls from any thread. Options that are not set keep their value.
void set_threads(const ThreadOptions& options);

/// Gives the calling thread its pool with the options of set_threads(), once; guards mapped files.
void prepare_thread();

/// Runs a function of the library without the interpreter's lock.
template <class Function>
auto without_lock(Function&& function) {
  const nb::gil_scoped_release released;
  prepare_thread();
  return std::forward<Function>(function)();
}

/// Runs a function that checks keyword arguments: its Error becomes ValueError.
template <class Function>
auto or_value_error(Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const Error& error) {
    throw nb::value_error(error.what());
  }
}

/// Lets Python handle signals a few times a second. Throws the exception of the handler: KeyboardInterrupt for Ctrl-C.
class SignalCheck {
 public:
  /// Takes the interpreter's lock if the interval has passed. Returns whether it did.
  bool operator()();

 private:
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now();
};

/// Reports a job's progress and messages to Python. Created with the interpreter's lock; lives as long as the job.
class JobListener {
 public:
  /// `on_progress(stage, done, total)` and `on_message(line)` are callable or None. An exception from them ends the
  /// job.
  JobListener(nb::object on_progress, nb::object on_message)
      : on_progress_(std::move(on_progress)), on_message_(std::move(on_message)) {}
  JobListener(const JobListener&) = delete;
  JobListener& operator=(const JobListener&) = delete;

  Progress progress();
  std::function<void(const std::string&)> message();

 private:
  nb::object on_progress_;
  nb::object on_message_;
  SignalCheck check_;
  std::string stage_;
};

/// Defines NAME(model, options, on_progress, on_message), which returns the JSON of a measurement of a model. Loading
/// the model may report messages.
template <class Options, class Report>
void define_measurement(nb::module_& module, const char* name,
                        Report (*measure)(const std::filesystem::path&, const Options&, const Progress&),
                        std::string (*json)(const Report&)) {
  using nb::literals::operator""_a;
  module.def(
      name,
      [measure, json](const std::filesystem::path& model, Options options, nb::object on_progress,
                      nb::object on_message) {
        JobListener listener(std::move(on_progress), std::move(on_message));
        options.model.tell = listener.message();
        return without_lock([&] { return json(measure(model, options, listener.progress())); });
      },
      "model"_a, "options"_a, "on_progress"_a.none(), "on_message"_a.none());
}

}  // namespace ballast::python

#endif  // BALLAST_PYTHON_BINDINGS_CALL_H_
