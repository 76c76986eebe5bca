// The line that a long job prints before it begins.
#ifndef BALLAST_TOOLS_COMMANDS_PLAN_LINE_H_
#define BALLAST_TOOLS_COMMANDS_PLAN_LINE_H_

#include <string>

#include "ballast/progress.h"
#include "ballast/ranks.h"

namespace ballast::tools {

/// Returns "ballast: calibration: expecting 1 m 17 s and 500 MB; 14.2 GB available", with a newline.
std::string plan_line(const std::string& job, const JobPlan& plan, const Ranks& ranks);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_COMMANDS_PLAN_LINE_H_
