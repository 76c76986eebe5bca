// The number of compute threads, and their cores.
#ifndef BALLAST_THREADS_H_
#define BALLAST_THREADS_H_

#include <cstddef>
#include <optional>

namespace ballast {

struct ThreadOptions {
  std::optional<std::size_t> count;  ///< default: OMP_NUM_THREADS, else available_cores()
  /// Binds each thread, including the caller's, to a core; threads that the caller starts later share its core. Null:
  /// only if the process may use fewer CPUs than the machine has, and there is a thread for each core.
  std::optional<bool> pin = false;
};

/// Returns the physical cores of the CPUs that this process may use.
std::size_t physical_cores();

/// Returns the physical cores among the CPUs that this process may use, at most those of its control group's quota,
/// divided among the ranks that share them. A second thread on a core gains nothing when both wait for the same
/// multipliers or the same memory.
std::size_t available_cores();

/// Sets up the pool of OpenMP threads for work that the calling thread begins. Must be called before the first model is
/// loaded; not from several threads at once.
void use_threads(const ThreadOptions& options);

}  // namespace ballast

#endif  // BALLAST_THREADS_H_
