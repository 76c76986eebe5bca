// Runs commands in several processes that mpirun started.
#ifndef BALLAST_TOOLS_COMMANDS_RANKED_JOB_H_
#define BALLAST_TOOLS_COMMANDS_RANKED_JOB_H_

#include <functional>

#include "ballast/ranks.h"
#include "tools/commands/job.h"

namespace ballast::tools {

/// Runs `job` as one of the ranks, or alone without a launcher. If it fails on one rank, that rank prints its error and
/// ends all others.
int run_on_ranks(const std::function<int(Ranks&)>& job);

/// Returns flags with which all ranks but the first print nothing.
JobFlags flags_of_rank(JobFlags flags, const Ranks& ranks);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_COMMANDS_RANKED_JOB_H_
