#include "serve/scheduler/engine_loop.h"

#include <algorithm>
#include <chrono>

#include "kernels/clock.h"

namespace ballast::serve {

void EngineLoop::add(Scheduler& scheduler, double share) {
  const std::lock_guard lock(mutex_);
  if (draining_ || ended_) scheduler.drain();
  if (ended_) return;
  turns_.add(scheduler, share);
  woken_ = true;
  changed_.notify_all();
}

void EngineLoop::remove(const Scheduler& scheduler) {
  std::unique_lock lock(mutex_);
  turns_.remove(scheduler);
  changed_.wait(lock, [&] { return working_ != &scheduler; });
}

void EngineLoop::wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

void EngineLoop::drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
  woken_ = true;
  turns_.for_each([](Scheduler& scheduler) { scheduler.drain(); });
  changed_.notify_all();
}

void EngineLoop::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  woken_ = true;
  changed_.notify_all();
}

void EngineLoop::run(const OnFailure& on_failure) {
  try {
    run_steps(on_failure);
  } catch (...) {
    end_all();
    throw;
  }
  end_all();
}

void EngineLoop::run_steps(const OnFailure& on_failure) {
  for (;;) {
    const Step step = next_step();
    if (step.scheduler == nullptr) return;
    std::exception_ptr failure;
    const kernels::Clock::time_point start = kernels::Clock::now();
    try {
      take_step(step);
    } catch (...) {
      failure = std::current_exception();
      step.scheduler->end();
    }
    // A turn that only looks whether pages have come from the disk must not be the next one again.
    constexpr double kLeast = 100e-6;
    const double seconds = std::max(kLeast, kernels::seconds_since(start));
    if (failure) on_failure(*step.scheduler, failure);
    {
      const std::lock_guard lock(mutex_);
      working_ = nullptr;
      turns_.charge(*step.scheduler, seconds);
      if (failure) turns_.remove(*step.scheduler);
    }
    changed_.notify_all();
  }
}

/// Waits for work, and marks its scheduler as used.
EngineLoop::Step EngineLoop::next_step() {
  // Measuring the memory takes a moment, so it is done when no request has come for this time.
  constexpr std::chrono::seconds kQuiet{2};
  // Another model's next request may come during a step, which is therefore short for this time.
  constexpr std::chrono::seconds kBetweenRequests{1};
  std::unique_lock lock(mutex_);
  for (;;) {
    woken_ = false;
    if (stopping_) return {};
    const auto turn = turns_.next([](const Scheduler& scheduler) { return scheduler.has_work(); });
    if (turn.member != nullptr) {
      const kernels::Clock::time_point now = kernels::Clock::now();
      if (turn.others_wait) shared_until_ = now + kBetweenRequests;
      working_ = turn.member;
      return {.scheduler = turn.member, .others_wait = now < shared_until_};
    }
    if (draining_) return {};
    const auto is_unmeasured = [](const Scheduler& scheduler) { return !scheduler.has_measured_memory(); };
    const auto is_woken = [&] { return woken_; };
    if (turns_.find(is_unmeasured) == nullptr) {
      changed_.wait(lock, is_woken);
    } else if (!changed_.wait_for(lock, kQuiet, is_woken)) {
      Scheduler* const unmeasured = turns_.find(is_unmeasured);
      if (unmeasured == nullptr) continue;  // it was removed
      working_ = unmeasured;
      return {.scheduler = unmeasured, .measures = true};
    }
  }
}

void EngineLoop::take_step(const Step& step) {
  if (step.measures) {
    step.scheduler->measure_memory();
  } else {
    step.scheduler->work(step.others_wait);
  }
}

/// Ends all requests with a failure. Schedulers that are added later are drained.
void EngineLoop::end_all() {
  std::unique_lock lock(mutex_);
  ended_ = true;
  for (;;) {
    Scheduler* const first = turns_.find([](const Scheduler&) { return true; });
    working_ = first;
    if (first == nullptr) break;
    turns_.remove(*first);
    lock.unlock();
    first->end();
    lock.lock();
  }
  changed_.notify_all();
}

}  // namespace ballast::serve
