// The one way in which kernels use threads: OpenMP, so that oneDNN and ballast share a pool.
#ifndef BALLAST_KERNELS_PARALLEL_H_
#define BALLAST_KERNELS_PARALLEL_H_

#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ballast::kernels {

/// Threads worth using for `operations` elementary operations: one when already inside a parallel region, or when the
/// work is shorter than the few microseconds that waking a thread takes.
inline std::size_t threads_for(std::size_t operations) {
  constexpr std::size_t kOperationsWorthAThread = 16384;
  if (operations < kOperationsWorthAThread || omp_in_parallel() != 0) return 1;
  return static_cast<std::size_t>(omp_get_max_threads());
}

/// Calls body(task, thread) for every task; whichever thread is free takes the next one.
template <class Body>
void parallel_tasks(std::size_t tasks, std::size_t threads, const Body& body) {
  threads = std::min(threads, tasks);
  if (threads <= 1) {
    for (std::size_t task = 0; task < tasks; ++task) body(task, std::size_t{0});
    return;
  }
#pragma omp parallel for schedule(dynamic) num_threads(static_cast<int>(threads))
  for (std::int64_t task = 0; task < static_cast<std::int64_t>(tasks); ++task) {
    body(static_cast<std::size_t>(task), static_cast<std::size_t>(omp_get_thread_num()));
  }
}

/// Calls body(begin, end) with one contiguous, equal share of 0 .. count per thread: for work bound by memory.
template <class Body>
void parallel_ranges(std::size_t count, std::size_t threads, const Body& body) {
  threads = std::min(threads, count);
  if (threads <= 1) {
    if (count != 0) body(std::size_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(static_cast<int>(threads))
  {
    const std::size_t team = static_cast<std::size_t>(omp_get_num_threads());
    const std::size_t thread = static_cast<std::size_t>(omp_get_thread_num());
    const std::size_t begin = count * thread / team;
    const std::size_t end = count * (thread + 1) / team;
    if (begin < end) body(begin, end);
  }
}

/// How a matmul cuts `m` tokens for tasks of one weight panel each: whole tiles, and enough tasks to keep `threads`
/// busy although each task decodes its panel anew.
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
