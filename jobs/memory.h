// The memory that this process uses, and the memory that it may still use.
#ifndef BALLAST_JOBS_MEMORY_H_
#define BALLAST_JOBS_MEMORY_H_

#include <cstdint>

namespace ballast::jobs {

/// Returns the bytes that this process may still use: the kernel's available memory within the limits of its control
/// groups, divided among the ranks on this machine.
std::uint64_t available_memory();

/// Returns the bytes that this process uses now.
std::uint64_t resident_memory();

}  // namespace ballast::jobs

#endif  // BALLAST_JOBS_MEMORY_H_
