// The thread that computes: takes turns of the schedulers of all loaded models, because the teams of several threads
// would compete for the same cores.
#ifndef BALLAST_SERVE_SCHEDULER_ENGINE_LOOP_H_
#define BALLAST_SERVE_SCHEDULER_ENGINE_LOOP_H_

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>

#include "kernels/clock.h"
#include "serve/scheduler/fair_turns.h"
#include "serve/scheduler/scheduler.h"

namespace ballast::serve {

/// The computing time is divided fairly among the schedulers that have work, one step each at a time.
///
/// Locks: `mutex_` protects all members. It is held while has_work() and drain() of the schedulers are called, which
/// lock a scheduler's mutex; nothing takes them in the other order. It is not held during a step.
class EngineLoop {
 public:
  EngineLoop() = default;
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  /// Adds a scheduler, of which `share` is a weight: 2 gets twice the time of 1. Its requests are refused if the loop
  /// is draining or has ended. Any thread.
  void add(Scheduler& scheduler, double share = 1);

  /// Removes a scheduler, which is not used any more when this returns: it waits for the end of its step. Does nothing
  /// for one that is not there. Any thread but the engine's.
  void remove(const Scheduler& scheduler);

  /// Must be called after a scheduler has accepted a request (SchedulerOptions::on_accepted). Any thread.
  void wake();

  /// Is called on the engine's thread with a scheduler whose model can't go on and whose requests have failed; the loop
  /// does not use it any more. If it throws, run() ends.
  using OnFailure = std::function<void(Scheduler& scheduler, const std::exception_ptr& failure)>;

  /// Runs until drain() and the last request's end, or until stop(); requests that are left fail. Passes on the
  /// exception of `on_failure`.
  void run(const OnFailure& on_failure);

  /// Accepts no more requests and completes the accepted ones. Any thread.
  void drain();

  /// Ends all requests with a failure after the current step. Any thread.
  void stop();

 private:
  /// What the engine's thread does next.
  struct Step {
    Scheduler* scheduler = nullptr;  ///< null: the loop ends
    bool others_wait = false;        ///< another scheduler has work, or had some a moment ago
    bool measures = false;           ///< nothing is to be done, so the memory is measured
  };

  Step next_step();
  void take_step(const Step& step);
  void run_steps(const OnFailure& on_failure);
  void end_all();

  std::mutex mutex_;
  std::condition_variable changed_;
  FairTurns<Scheduler> turns_;
  const Scheduler* working_ = nullptr;         ///< the scheduler that the engine's thread uses without the mutex
  bool woken_ = false;                         ///< there may be work
  kernels::Clock::time_point shared_until_{};  ///< the time until which others count as waiting
  bool draining_ = false;
  bool stopping_ = false;
  bool ended_ = false;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SCHEDULER_ENGINE_LOOP_H_
