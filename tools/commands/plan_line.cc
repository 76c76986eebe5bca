#include "tools/commands/plan_line.h"

#include "ballast/text.h"
#include "tools/terminal/units.h"

namespace ballast::tools {

std::string plan_line(const std::string& job, const JobPlan& plan, const Ranks& ranks) {
  return "ballast: " + job + ": expecting " + format_duration(plan.seconds) + " and " +
         text::format_bytes(plan.memory_bytes) +
         (ranks.size() == 1 ? "" : " for each of " + std::to_string(ranks.size()) + " ranks") + "; " +
         text::format_bytes(plan.available_bytes) + " available\n";
}

}  // namespace ballast::tools
