#include "kernels/parallel.h"

#include <doctest/doctest.h>
#include <hwy/base.h>
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kernel_cases.h"

namespace ballast::kernels {
namespace {

constexpr std::size_t kMuchWork = std::size_t{1} << 40;

/// Returns how often each of `count` tasks ran, and each index of a range of this length.
std::vector<int> runs_of(std::size_t count, std::size_t threads) {
  std::vector<int> runs(count);
  parallel_tasks(count, threads, [&](std::size_t task, std::size_t thread) {
    ++runs[task];
    if (thread >= threads) runs[task] = -1;
  });
  parallel_ranges(count, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) ++runs[i];
  });
  return runs;
}

/// Runs body() on `threads` OpenMP threads, without a team and in one.
template <class Body>
void alone_and_in_a_team(int threads, const Body& body) {
  CAPTURE(threads);
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  body();
  with_team(body);
  omp_set_num_threads(before);
}

TEST_CASE("every task and every index of a range runs once, in a team and without one") {
  for (const int threads : {1, 2, 3, 17}) {
    alone_and_in_a_team(threads, [] {
      for (const std::size_t count : {0, 1, 2, 3, 5, 64, 1000}) {
        CHECK(runs_of(count, threads_for(kMuchWork)) == std::vector<int>(count, 2));
      }
    });
  }
}

TEST_CASE("every task of every partition runs once, in a team and without one") {
  for (const int omp_threads : {1, 2, 5, 70}) {
    alone_and_in_a_team(omp_threads, [] {
      const std::size_t threads = threads_for(kMuchWork);
      for (const std::size_t partitions : {std::size_t{1}, std::size_t{2}, kMostPartitions}) {
        if (partitions > threads) continue;
        for (const std::size_t tasks : {0, 1, 3, 100}) {
          CAPTURE(partitions);
          CAPTURE(tasks);
          std::vector<int> runs(partitions * tasks);
          parallel_partitions(partitions, tasks, threads,
                              [&](std::size_t partition, std::size_t task, std::size_t thread) {
                                ++runs[partition * tasks + task];
                                if (thread >= threads) runs[partition * tasks + task] = -1;
                              });
          CHECK(runs == std::vector<int>(partitions * tasks, 1));
        }
      }
    });
  }
}

TEST_CASE("a team runs thousands of consecutive calls") {
  for (const int threads : {2, 5}) {
    alone_and_in_a_team(threads, [] {
      const std::size_t team = threads_for(kMuchWork);
      std::uint64_t sum = 0;
      for (std::uint64_t call = 0; call < 3000; ++call) {
        std::vector<std::uint64_t> parts(team);
        parallel_ranges(team, team, [&](std::size_t begin, std::size_t end) {
          for (std::size_t i = begin; i < end; ++i) parts[i] = call * (i + 1);
        });
        sum += std::accumulate(parts.begin(), parts.end(), std::uint64_t{0});
      }
      CHECK(sum == 3000 * 2999 / 2 * team * (team + 1) / 2);
    });
  }
}

TEST_CASE("a team works on several threads at once") {
  if (omp_get_thread_limit() < 2) return;  // OMP_THREAD_LIMIT=1: there are none
  const bool several = with_threads(2, [] {
    bool met = false;
    with_team([&] {
      if (available_threads() < 2) return;
      std::atomic<int> arrived{0};
      // Each waits for the other: one thread alone would never return.
      parallel_tasks(2, 2, [&](std::size_t, std::size_t) {
        ++arrived;
        while (arrived < 2) std::this_thread::yield();
      });
      met = arrived == 2;
    });
    return met;
  });
  CHECK(several);
}

TEST_CASE("parallel calls inside a parallel call, a team's or OpenMP's, run on the thread that makes them") {
  alone_and_in_a_team(4, [] {
    std::vector<int> wrong(8);
    parallel_tasks(8, threads_for(kMuchWork), [&](std::size_t task, std::size_t) {
      const std::thread::id self = std::this_thread::get_id();
      if (threads_for(kMuchWork) != 1) wrong[task] = 1;
      with_team([&] {
        parallel_ranges(100, threads_for(kMuchWork), [&](std::size_t begin, std::size_t end) {
          if (begin != 0 || end != 100 || std::this_thread::get_id() != self) wrong[task] = 2;
        });
      });
    });
    CHECK(wrong == std::vector<int>(8));
  });
}

TEST_CASE("an exception in a team's body reaches the caller, and the next team works") {
  const bool done = with_threads(3, [] {
    for (int round = 0; round < 3; ++round) {
      CHECK_THROWS_AS(with_team([] {
                        CHECK(runs_of(50, threads_for(kMuchWork)) == std::vector<int>(50, 2));
                        throw std::runtime_error("it failed");
                      }),
                      std::runtime_error);
      with_team([] { CHECK(runs_of(50, threads_for(kMuchWork)) == std::vector<int>(50, 2)); });
    }
    return true;
  });
  CHECK(done);
}

TEST_CASE("several threads of a program can lead teams at the same time") {
  std::vector<std::vector<int>> runs(3);
  std::vector<std::thread> leaders;
  for (std::vector<int>& own : runs) {
    leaders.emplace_back([&own] {
      omp_set_num_threads(2);
      for (int round = 0; round < 20; ++round) with_team([&] { own = runs_of(100, threads_for(kMuchWork)); });
    });
  }
  for (std::thread& leader : leaders) leader.join();
  for (const std::vector<int>& own : runs) CHECK(own == std::vector<int>(100, 2));
}

// ThreadSanitizer does not allow threads in a forked process.
#if !HWY_IS_TSAN
TEST_CASE("after a fork, parent and child both have working threads") {
  const auto runs_once = [] {
    std::atomic<int> runs = 0;
    with_team([&] { parallel_tasks(64, 3, [&](std::size_t, std::size_t) { ++runs; }); });
    int threads = 0;
#pragma omp parallel num_threads(3) reduction(+ : threads)
    threads += 1;
    return runs == 64 && threads == 3;
  };
  CHECK(runs_once());
  for (int i = 0; i < 3; ++i) {
    const pid_t process = ::fork();
    if (process == 0) {
      ::alarm(60);  // ends the process if it hangs
      ::_exit(runs_once() ? 0 : 1);
    }
    int status = -1;
    ::waitpid(process, &status, 0);
    CHECK(status == 0);
    CHECK(runs_once());
  }
}
#endif

}  // namespace
}  // namespace ballast::kernels
