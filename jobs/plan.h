// Checks that a job's memory is available before it begins.
#ifndef BALLAST_JOBS_PLAN_H_
#define BALLAST_JOBS_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "ballast/progress.h"

namespace ballast::jobs {

/// The samples of a job.
struct PlannedSamples {
  std::size_t samples = 0;
  std::size_t length = 0;  ///< in tokens
  std::size_t ranks = 1;
};

/// Plans the memory of a job in which this rank has `own` samples and n samples need `memory(n)` bytes, an increasing
/// function. Throws Error naming the largest number of samples that fits if the memory is not available.
JobPlan plan_memory(const PlannedSamples& job, const std::function<std::uint64_t(std::size_t)>& memory,
                    std::size_t own);

}  // namespace ballast::jobs

#endif  // BALLAST_JOBS_PLAN_H_
