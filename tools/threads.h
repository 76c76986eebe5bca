// How many threads a command computes with, and where.
#ifndef BALLAST_TOOLS_THREADS_H_
#define BALLAST_TOOLS_THREADS_H_

#include <cstddef>
#include <optional>

namespace ballast::tools {

struct ThreadOptions {
  std::optional<std::size_t> count;  ///< else what OMP_NUM_THREADS says, else available_cores()
  bool pin = false;                  ///< keep each thread on a core of its own
};

/// Physical cores among the CPUs that this process may run on, no more than its control group's quota pays for,
/// divided among the ranks that share them: a second thread on a core gains nothing where both wait for the same
/// multipliers or the same memory.
std::size_t available_cores();

/// Sets up the OpenMP pool.
void use_threads(const ThreadOptions& options);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_THREADS_H_
