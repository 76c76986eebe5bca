#include "kernels/parallel.h"

#include <hwy/cache_control.h>
#include <omp.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <vector>

namespace ballast::kernels {

namespace {

using parallel_internal::Work;

/// Read before any thread is pinned: a pinned one sees its own processor only.
const std::size_t processors = static_cast<std::size_t>(omp_get_num_procs());

/// A state that one thread waits for and another one sets, on a cache line of its own.
class alignas(64) Signal {
 public:
  std::uint32_t get() const { return state_.load(std::memory_order_acquire); }

  /// Sequentially consistent, because it decides whether the waiter must be woken.
  void set(std::uint32_t state) {
    state_.store(state);
    state_.notify_one();
  }

  bool change(std::uint32_t from, std::uint32_t to) { return state_.compare_exchange_strong(from, to); }

  /// Returns the state when it is no longer `state`: watches it where `spin` allows, then sleeps.
  std::uint32_t wait_while(std::uint32_t state, bool spin) const {
    // Longer than what stands between two parallel calls of a step; a thread that a busy machine does not run costs
    // the others no more than that.
    constexpr std::chrono::microseconds kSpinning{100};
    constexpr int kPausesPerLook = 64;
    if (spin) {
      const auto end = std::chrono::steady_clock::now() + kSpinning;
      do {
        for (int i = 0; i < kPausesPerLook; ++i) {
          if (const std::uint32_t now = get(); now != state) return now;
          hwy::Pause();
        }
      } while (std::chrono::steady_clock::now() < end);
    }
    state_.wait(state, std::memory_order_acquire);
    return get();
  }

 private:
  std::atomic<std::uint32_t> state_{0};
};

/// The leader posts parts to its helpers, one each, and takes back what has not been begun when its own part is done:
/// a helper that the system does not run delays nobody.
class Team {
 public:
  std::size_t threads() const { return running_ ? 1 : threads_; }

  void open(std::size_t threads) {
    threads_ = threads;
    running_ = false;
    // More threads than processors: a watching one would keep a working one from its processor.
    spin_ = threads <= processors;
    if (helpers_.size() + 1 < threads) helpers_ = std::vector<Signal>(threads - 1);
    for (std::size_t i = 1; i < threads; ++i) helper(i).set(kIdle);
  }

  void limit(std::size_t threads) { threads_ = threads; }

  void close() {
    for (std::size_t i = 1; i < threads_; ++i) helper(i).set(kClosed);
    threads_ = 0;
  }

  void help(std::size_t thread) {
    Signal& signal = helper(thread);
    for (;;) {
      const std::uint32_t state = signal.wait_while(kIdle, spin_);
      if (state == kClosed) return;
      if (!signal.change(kPosted, kRunning)) continue;
      work_(thread);
      signal.set(kIdle);
    }
  }

  void run(std::size_t parts, const Work& work) {
    running_ = true;
    work_ = work;
    for (std::size_t i = 1; i < parts; ++i) helper(i).set(kPosted);
    work(0);
    for (std::size_t i = 1; i < parts; ++i) {
      if (helper(i).change(kPosted, kIdle)) work(i);
    }
    for (std::size_t i = 1; i < parts; ++i) helper(i).wait_while(kRunning, spin_);
    running_ = false;
  }

 private:
  enum : std::uint32_t { kIdle, kPosted, kRunning, kClosed };

  Signal& helper(std::size_t thread) { return helpers_[thread - 1]; }

  std::vector<Signal> helpers_;  ///< of threads 1 and up; kept, so that opening allocates nothing
  Work work_{};
  std::size_t threads_ = 0;
  bool spin_ = true;
  bool running_ = false;
};

/// The team that this thread leads, or null.
thread_local Team* led_team = nullptr;

}  // namespace

std::size_t available_threads() {
  if (led_team != nullptr) return led_team->threads();
  return omp_in_parallel() != 0 ? 1 : static_cast<std::size_t>(omp_get_max_threads());
}

namespace parallel_internal {

void run_parts(std::size_t parts, const Work& work) {
  if (led_team != nullptr) return led_team->run(parts, work);
#pragma omp parallel for schedule(static, 1) num_threads(static_cast<int>(parts))
  for (std::size_t part = 0; part < parts; ++part) work(part);
}

void lead_team(const Work& body) {
  const std::size_t wanted = available_threads();
  if (led_team != nullptr || wanted == 1) return body(0);
  static thread_local Team team_of_caller;
  Team& team = team_of_caller;
  team.open(wanted);
  std::exception_ptr failure;
#pragma omp parallel num_threads(static_cast<int>(wanted))
  {
    if (omp_get_thread_num() != 0) {
      team.help(static_cast<std::size_t>(omp_get_thread_num()));
    } else {
      // Which may be fewer than wanted. Helpers that have not arrived yet are like those that do not run.
      team.limit(static_cast<std::size_t>(omp_get_num_threads()));
      led_team = &team;
      try {
        body(0);
      } catch (...) {
        failure = std::current_exception();
      }
      led_team = nullptr;
      team.close();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace parallel_internal

}  // namespace ballast::kernels
