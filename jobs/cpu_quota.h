// The share of the machine's processors that a container may use.
#ifndef BALLAST_JOBS_CPU_QUOTA_H_
#define BALLAST_JOBS_CPU_QUOTA_H_

#include <cstddef>
#include <optional>
#include <string_view>

namespace ballast::jobs {

/// Whole processors that a quota of "150000 100000" (microseconds of each period, as in a control group's cpu.max)
/// pays for, at least one: a team of threads that spends its quota early stops as a whole. Nothing when there is none
/// ("max 100000", or text of another form).
std::optional<std::size_t> processors_of_quota(std::string_view cpu_max);

/// The smallest quota of this process's control group (version 2) and those above it.
std::optional<std::size_t> cpu_quota();

}  // namespace ballast::jobs

#endif  // BALLAST_JOBS_CPU_QUOTA_H_
