#include "jobs/plan.h"

#include <string>

#include "ballast/error.h"
#include "ballast/text.h"
#include "jobs/memory.h"

namespace ballast::jobs {

JobPlan plan_memory(const PlannedSamples& job, const std::function<std::uint64_t(std::size_t)>& memory,
                    std::size_t own) {
  JobPlan plan;
  plan.available_bytes = available_memory();
  plan.memory_bytes = memory(own);
  if (plan.memory_bytes <= plan.available_bytes) return plan;
  // Finds the largest number that fits by bisection.
  std::size_t fit = 0;
  for (std::size_t above = job.samples; above - fit > 1;) {
    const std::size_t middle = fit + (above - fit) / 2;
    (memory((middle + job.ranks - 1) / job.ranks) <= plan.available_bytes ? fit : above) = middle;
  }
  throw FileError("memory", std::to_string(job.samples) + " samples of " + std::to_string(job.length) +
                                " tokens take " + text::format_bytes(plan.memory_bytes) + ", and " +
                                text::format_bytes(plan.available_bytes) + " are available: " +
                                (fit == 0 ? std::string("no number of samples fits; give --text, or free memory")
                                          : "--samples " + std::to_string(fit) + " would fit"));
}

}  // namespace ballast::jobs
