// How many threads compute, and where.
#ifndef BALLAST_THREADS_H_
#define BALLAST_THREADS_H_

#include <cstddef>
#include <optional>

namespace ballast {

struct ThreadOptions {
  std::optional<std::size_t> count;  ///< else what OMP_NUM_THREADS says, else available_cores()
  /// Keep each thread, the caller's too, on a core of its own; threads that the caller starts afterwards share its
  /// core. Null: where the process alone was given CPUs, fewer than the machine has, and there is a thread for each
  /// core.
  std::optional<bool> pin = false;
};

/// Physical cores among the CPUs that this process may run on, no more than its control group's quota pays for,
/// divided among the ranks that share them: a second thread on a core gains nothing where both wait for the same
/// multipliers or the same memory.
std::size_t available_cores();

/// Sets up the pool of OpenMP threads that work begun by this thread is shared with. Call it before the first model is
/// loaded; not from several threads at once.
void use_threads(const ThreadOptions& options);

}  // namespace ballast

#endif  // BALLAST_THREADS_H_
