// How many threads a command computes with.
#ifndef BALLAST_TOOLS_THREADS_H_
#define BALLAST_TOOLS_THREADS_H_

#include <cstddef>
#include <optional>

namespace ballast::tools {

/// Physical cores among the CPUs that this process may run on: a second thread on a core gains nothing where both wait
/// for the same multipliers or the same memory.
std::size_t available_cores();

/// Sets the size of the OpenMP pool: `threads`, else what OMP_NUM_THREADS says, else available_cores().
void use_threads(std::optional<std::size_t> threads);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_THREADS_H_
