// Runs a job on a given number of OpenMP threads.
#ifndef BALLAST_TESTS_SUPPORT_WITH_THREADS_H_
#define BALLAST_TESTS_SUPPORT_WITH_THREADS_H_

#include <omp.h>

namespace ballast::test {

template <typename Job>
auto with_threads(int threads, Job job) {
  struct Restore {
    int threads = omp_get_max_threads();
    ~Restore() { omp_set_num_threads(threads); }
  } restore;
  omp_set_num_threads(threads);
  return job();
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_WITH_THREADS_H_
