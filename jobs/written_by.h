// The name of the program in the files that it writes.
#ifndef BALLAST_JOBS_WRITTEN_BY_H_
#define BALLAST_JOBS_WRITTEN_BY_H_

#include <string>

#include "ballast/version.h"

namespace ballast::jobs {

/// Returns "ballast 0.1.0".
inline std::string written_by() {
  return "ballast " + std::string(version());
}

}  // namespace ballast::jobs

#endif  // BALLAST_JOBS_WRITTEN_BY_H_
