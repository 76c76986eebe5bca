// How a command that fails ends: one line on standard error and an exit code.
#ifndef BALLAST_TOOLS_TERMINAL_FAILURE_H_
#define BALLAST_TOOLS_TERMINAL_FAILURE_H_

#include <string>

namespace ballast::tools {

/// One line on standard error.
void print_error(std::string message);

/// Of several ranks that fail for the same reason only the first shall be heard: the others wait a moment before they
/// tell, in which it ends them.
void wait_for_turn();

/// Whether this process shall leave telling of a failure that all ranks have alike, as wrong usage, to the first one.
/// It waits then, so as not to end the first one before it has told.
bool leave_to_first_rank();

/// To be called where an exception was caught: tells of it and returns the exit code that it stands for.
int report_failure();

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_TERMINAL_FAILURE_H_
