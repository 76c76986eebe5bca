// How much memory this process holds and may still take.
#ifndef BALLAST_JOBS_MEMORY_H_
#define BALLAST_JOBS_MEMORY_H_

#include <cstdint>

namespace ballast::jobs {

/// Bytes that this process may still take: what the kernel says is available, its control groups' limits, and the share
/// of the ranks beside it on this machine.
std::uint64_t available_memory();

/// Bytes that this process holds now.
std::uint64_t resident_memory();

}  // namespace ballast::jobs

#endif  // BALLAST_JOBS_MEMORY_H_
