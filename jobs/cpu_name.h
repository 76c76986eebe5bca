// The processor's name.
#ifndef BALLAST_JOBS_CPU_NAME_H_
#define BALLAST_JOBS_CPU_NAME_H_

#include <string>

namespace ballast::jobs {

/// Returns the name that the processor gives itself; "unknown" where the system does not tell.
std::string cpu_name();

}  // namespace ballast::jobs

#endif  // BALLAST_JOBS_CPU_NAME_H_
