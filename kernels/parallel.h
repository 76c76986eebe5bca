// The kernels' interface to threads, which are OpenMP's. Outside of with_team a call wakes and joins them, which takes
// microseconds; inside it they wait for the next call, which starts in a fraction of one.
#ifndef BALLAST_KERNELS_PARALLEL_H_
#define BALLAST_KERNELS_PARALLEL_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>

namespace ballast::kernels {

/// Returns the number of threads for parallel calls: OpenMP's, or those of the team that the caller leads; one if the
/// caller is itself a worker thread.
std::size_t available_threads();

/// Sets the number of threads for parallel calls of the calling thread.
void set_available_threads(std::size_t count);

/// Returns the threads worth using for `operations` elementary operations: one if starting them takes longer than the
/// work.
inline std::size_t threads_for(std::size_t operations) {
  constexpr std::size_t kOperationsWorthAThread = 16384;
  return operations < kOperationsWorthAThread ? 1 : available_threads();
}

namespace parallel_internal {

/// A type-erased callable. It must not throw, because it runs on other threads.
struct Work {
  void (*call)(const void* body, std::size_t part);
  const void* body;

  void operator()(std::size_t part) const { call(body, part); }
};

template <class Body>
Work work_of(const Body& body) {
  return {[](const void* erased, std::size_t part) { (*static_cast<const Body*>(erased))(part); }, &body};
}

/// Calls work(part) once for every part, parts 1 and up on other threads where they are free. Returns when all are
/// done. parts <= available_threads().
void run_parts(std::size_t parts, const Work& work);

void lead_team(const Work& body);

/// Calls body(task) for every task below `tasks` that no other thread takes.
template <class Body>
void take_tasks(std::atomic<std::size_t>& next, std::size_t tasks, const Body& body) {
  for (;;) {
    const std::size_t task = next.fetch_add(1, std::memory_order_relaxed);
    if (task >= tasks) return;
    body(task);
  }
}

}  // namespace parallel_internal

/// Calls body() on this thread while the other OpenMP threads wait for its parallel calls. All kernels of one step of a
/// model belong in one body. Inside another with_team, or inside an OpenMP region, it only calls body(). Exceptions of
/// body are passed on; the bodies of parallel calls must not throw. A `#pragma omp parallel` inside, including
/// oneDNN's, gets one thread: distribute such work with parallel_tasks.
template <class Body>
void with_team(const Body& body) {
  const auto call = [&body](std::size_t) { body(); };
  parallel_internal::lead_team(parallel_internal::work_of(call));
}

/// Calls body(task, thread) for every task; whichever thread is free takes the next one.
template <class Body>
void parallel_tasks(std::size_t tasks, std::size_t threads, const Body& body) {
  threads = std::min(threads, tasks);
  if (threads <= 1) {
    for (std::size_t task = 0; task < tasks; ++task) body(task, std::size_t{0});
    return;
  }
  std::atomic<std::size_t> next{0};
  const auto work = [&](std::size_t thread) {
    parallel_internal::take_tasks(next, tasks, [&](std::size_t task) { body(task, thread); });
  };
  parallel_internal::run_parts(threads, parallel_internal::work_of(work));
}

/// Calls body(begin, end) with one contiguous, equal share of 0 .. count per thread: for work bound by memory.
template <class Body>
void parallel_ranges(std::size_t count, std::size_t threads, const Body& body) {
  threads = std::min(threads, count);
  if (threads <= 1) {
    if (count != 0) body(std::size_t{0}, count);
    return;
  }
  const auto take_share = [&](std::size_t share) { body(count * share / threads, count * (share + 1) / threads); };
  parallel_internal::run_parts(threads, parallel_internal::work_of(take_share));
}

/// Catches the exceptions of the tasks of a parallel call, which must not leave them, and keeps that of the first
/// failed task.
class TaskFailure {
 public:
  template <class Body>
  void keep(std::size_t task, const Body& body) noexcept {
    try {
      body();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (failure_ && task_ < task) return;
      failure_ = std::current_exception();
      task_ = task;
      failed_.store(true, std::memory_order_relaxed);
    }
  }

  /// Returns whether a task has failed, so that the remaining tasks can be skipped.
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

  /// Throws the stored exception, if there is one. Must be called after the parallel call.
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::size_t task_ = 0;
  std::atomic<bool> failed_ = false;
};

inline constexpr std::size_t kMostPartitions = 64;

/// Calls body(partition, task, thread) for each of `tasks` tasks of every partition. A thread first takes the tasks of
/// its own partition, so that their data stays in its caches from call to call; then it helps with the other
/// partitions. Needs partitions <= kMostPartitions.
template <class Body>
void parallel_partitions(std::size_t partitions, std::size_t tasks, std::size_t threads, const Body& body) {
  struct alignas(64) Counter {
    std::atomic<std::size_t> next{0};
  };
  std::array<Counter, kMostPartitions> counters;
  const auto work = [&](std::size_t thread) {
    for (std::size_t i = 0; i < partitions; ++i) {
      const std::size_t partition = (thread + i) % partitions;
      parallel_internal::take_tasks(counters[partition].next, tasks,
                                    [&](std::size_t task) { body(partition, task, thread); });
    }
  };
  if (threads <= 1) return work(0);
  parallel_internal::run_parts(threads, parallel_internal::work_of(work));
}

/// Divides the `m` tokens of a matmul into blocks for tasks of one weight panel each: whole tiles, and enough tasks to
/// keep `threads` busy although each task decodes its panel again.
struct TokenBlocks {
  std::size_t size;
  std::size_t count;

  TokenBlocks(std::size_t m, std::size_t tile, std::size_t panels, std::size_t threads) {
    constexpr std::size_t kTasksPerThread = 4;
    constexpr std::size_t kTilesWorthATask = 4;
    const std::size_t tiles = (m + tile - 1) / tile;
    const std::size_t wanted = threads == 1 ? 1 : (kTasksPerThread * threads + panels - 1) / panels;
    const std::size_t blocks = std::clamp<std::size_t>(wanted, 1, std::max<std::size_t>(1, tiles / kTilesWorthATask));
    size = (tiles + blocks - 1) / blocks * tile;
    count = (m + size - 1) / size;
  }
};

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_PARALLEL_H_
