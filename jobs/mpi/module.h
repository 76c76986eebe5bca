// What libballast_mpi.so, loaded only into programs that a launcher started, has to offer: MPI's libraries cost a
// program that does not use them milliseconds at its start.
#ifndef BALLAST_JOBS_MPI_MODULE_H_
#define BALLAST_JOBS_MPI_MODULE_H_

#include "ballast/ranks.h"

namespace ballast::jobs {

/// Initializes MPI. The caller owns the result, which finalizes MPI. Null when the module is of another version than
/// the program that asks.
using OpenMpiRanks = Ranks* (*)(const char* version);

inline constexpr const char* kMpiModule = "libballast_mpi.so";
inline constexpr const char* kOpenMpiRanks = "ballast_open_mpi_ranks";

/// Whether it is beside the program, or where an installation keeps modules.
bool mpi_module_is_here();

}  // namespace ballast::jobs

#endif  // BALLAST_JOBS_MPI_MODULE_H_
