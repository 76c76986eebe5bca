// The interface of libballast_mpi.so. It is loaded only under a launcher, because MPI's libraries cost other programs
// milliseconds at their start.
#ifndef BALLAST_JOBS_MPI_MODULE_H_
#define BALLAST_JOBS_MPI_MODULE_H_

#include "ballast/ranks.h"

namespace ballast::jobs {

/// Initializes MPI. The caller owns the result, which finalizes MPI. Returns null if the module's version differs from
/// the program's.
using OpenMpiRanks = Ranks* (*)(const char* version);

inline constexpr const char* kMpiModule = "libballast_mpi.so";
inline constexpr const char* kOpenMpiRanks = "ballast_open_mpi_ranks";

/// Returns whether the module is next to the program, or in the installation's folder for modules.
bool mpi_module_is_here();

}  // namespace ballast::jobs

#endif  // BALLAST_JOBS_MPI_MODULE_H_
