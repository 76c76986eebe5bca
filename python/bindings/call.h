// How a call from Python runs in the library: with the interpreter free for others, threads as the user wants them, and
// a job's progress told to Python.
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

#include "ballast/progress.h"
#include "ballast/threads.h"

namespace ballast::python {

namespace nb = nanobind;

/// Of all calls from now on, whichever thread makes them. What is not said stays as it is.
void set_threads(const ThreadOptions& options);

/// Gives the calling thread its pool of the size that set_threads() said, once; guards the files that are mapped.
void prepare_thread();

/// Runs a function of the library without the interpreter's lock.
template <class Function>
auto without_lock(Function&& function) {
  const nb::gil_scoped_release released;
  prepare_thread();
  return std::forward<Function>(function)();
}

/// Lets Python handle signals that have come, a few times a second. Throws what the handler raised: for Ctrl-C
/// KeyboardInterrupt.
class SignalCheck {
 public:
  /// Takes the interpreter's lock when it is time. Returns whether it was.
  bool operator()();

 private:
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now();
};

/// What a job tells Python. Made with the interpreter's lock; lives as long as the job.
class JobListener {
 public:
  /// `on_progress(stage, done, total)` and `on_message(line)`, each callable or None. What they raise ends the job.
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

/// Defines NAME(model, options, on_progress, on_message), which gives the JSON of what is measured of a model; its
/// loading may have something to tell.
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
