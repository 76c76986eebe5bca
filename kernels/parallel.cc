#include "kernels/parallel.h"

#include <hwy/cache_control.h>
#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <vector>

namespace ballast::kernels {

namespace {

using parallel_internal::Work;

/// Read before any thread is pinned: a pinned one sees its own processor only.
const std::size_t processors = static_cast<std::size_t>(omp_get_num_procs());

/// Ends OpenMP's pool before each fork: a forked process has only the forking thread, but gcc's OpenMP in it would wait
/// forever for the pool's other threads. Parent and child each create a new pool when they first need it. Returns
/// whether the handler could be registered.
bool end_pool_before_forks() {
  return pthread_atfork([] { omp_pause_resource_all(omp_pause_soft); }, nullptr, nullptr) == 0;
}

[[maybe_unused]] const bool pool_ends_before_forks = end_pool_before_forks();

/// Waits until ready(): polls if `spin` is set, then sleeps until `bell` rings. The thread that makes it ready rings
/// afterwards.
template <class Ready>
void wait_until(const Ready& ready, const std::atomic<std::uint32_t>& bell, bool spin) {
  // Longer than the work between two parallel calls of a step; a thread that a busy machine does not run delays the
  // others by no more than this.
  constexpr std::chrono::microseconds kSpinning{100};
  constexpr int kPausesPerLook = 64;
  if (spin) {
    const auto end = std::chrono::steady_clock::now() + kSpinning;
    do {
      for (int i = 0; i < kPausesPerLook; ++i) {
        if (ready()) return;
        hwy::Pause();
      }
    } while (std::chrono::steady_clock::now() < end);
  }
  for (;;) {
    const std::uint32_t rung = bell.load();
    if (ready()) return;
    bell.wait(rung);
  }
}

/// A team of threads. The leader posts a call to all helpers at once, and when its own part is done, takes back the
/// parts that have not begun: a helper that the system does not run delays nothing.
class Team {
 public:
  std::size_t threads() const { return running_ ? 1 : threads_; }

  void open(std::size_t threads) {
    threads_ = std::min(threads, kMostParts);
    running_ = false;
    // With more threads than processors, a polling thread would take a processor from a working one.
    spin_ = threads <= processors;
    if (helpers_.size() + 1 < threads) helpers_ = std::vector<Helper>(threads - 1);
    post(1);
  }

  void limit(std::size_t threads) { threads_ = std::min(threads_, threads); }

  void close() {
    post(kClosed);
    threads_ = 0;
  }

  void help(std::size_t thread) {
    Helper& own = helper(thread);
    for (std::uint64_t call = 0;;) {
      wait_until([&] { return call_.load(std::memory_order_acquire) != call; }, bell_, spin_);
      call = call_.load(std::memory_order_acquire);
      const std::size_t parts = call & kMostParts;
      if (parts == kClosed) return;
      if (thread >= parts || !own.take(call)) continue;
      work_(thread);
      own.done.store(1);  // sequentially consistent, because it decides whether the leader must be woken
      own.done.notify_one();
    }
  }

  void run(std::size_t parts, const Work& work) {
    running_ = true;
    work_ = work;
    const std::uint64_t call = post(parts);
    work(0);
    for (std::size_t i = 1; i < parts; ++i) {
      if (!helper(i).take(call)) continue;
      work(i);
      helper(i).done.store(1, std::memory_order_relaxed);
    }
    for (std::size_t i = 1; i < parts; ++i) {
      std::atomic<std::uint32_t>& done = helper(i).done;
      wait_until([&] { return done.load(std::memory_order_acquire) != 0; }, done, spin_);
      done.store(0, std::memory_order_relaxed);
    }
    running_ = false;
  }

 private:
  static constexpr std::size_t kClosed = 0;
  static constexpr int kPartBits = 16;
  static constexpr std::size_t kMostParts = (std::size_t{1} << kPartBits) - 1;

  /// On its own cache line.
  struct alignas(64) Helper {
    std::atomic<std::uint64_t> taken{0};  ///< the last call whose part was begun, by the helper or by the leader
    std::atomic<std::uint32_t> done{0};   ///< 1: its part is done, and the leader has not noticed it

    /// Returns true for the first thread that takes a call's part. Calls ascend, so a late thread cannot take a part of
    /// a later call.
    bool take(std::uint64_t call) {
      std::uint64_t last = taken.load(std::memory_order_acquire);
      return last < call && taken.compare_exchange_strong(last, call);
    }
  };

  Helper& helper(std::size_t thread) { return helpers_[thread - 1]; }

  /// Posts a call to all helpers with one store: its number and, in the low bits, the number of its parts.
  std::uint64_t post(std::size_t parts) {
    const std::uint64_t call = (++calls_ << kPartBits) | parts;
    call_.store(call, std::memory_order_release);
    bell_.store(static_cast<std::uint32_t>(calls_));
    bell_.notify_all();
    return call;
  }

  std::vector<Helper> helpers_;  ///< threads from 1 on; kept, so that starting needs no allocation
  alignas(64) std::atomic<std::uint64_t> call_{0};
  std::atomic<std::uint32_t> bell_{0};  ///< wakes sleeping threads
  alignas(64) Work work_{};
  std::uint64_t calls_ = 0;
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

void set_available_threads(std::size_t count) {
  omp_set_num_threads(static_cast<int>(count));
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
      // There may be fewer than requested. Helpers that have not started yet are treated like those that do not run.
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
