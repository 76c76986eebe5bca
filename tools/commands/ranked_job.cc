#include "tools/commands/ranked_job.h"

#include <memory>

#include "tools/commands/commands.h"
#include "tools/terminal/failure.h"

namespace ballast::tools {

int run_on_ranks(const std::function<int(Ranks&)>& job) {
  const std::unique_ptr<Ranks> ranks = open_ranks();
  if (ranks->size() == 1) return job(*ranks);
  int exit_code = 0;
  try {
    return job(*ranks);
  } catch (...) {
    wait_for_turn();
    exit_code = ranks->first_to_fail() ? report_failure() : kExitFailed;
  }
  // Other ranks may wait for data that this rank will not send any more.
  ranks->end_all(exit_code);
  return exit_code;
}

JobFlags flags_of_rank(JobFlags flags, const Ranks& ranks) {
  flags.quiet = flags.quiet || !ranks.first();
  return flags;
}

}  // namespace ballast::tools
