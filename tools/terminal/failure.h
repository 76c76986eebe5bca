// The end of a command that fails: one line on standard error and an exit code.
#ifndef BALLAST_TOOLS_TERMINAL_FAILURE_H_
#define BALLAST_TOOLS_TERMINAL_FAILURE_H_

#include <string>

namespace ballast::tools {

/// Prints one line on standard error.
void print_error(std::string message);

/// If several ranks fail for the same reason, only the first should print the error: the others wait a moment, in which
/// it ends them.
void wait_for_turn();

/// Returns whether the root rank prints a failure that all ranks have alike, such as wrong usage. Then waits, so as not
/// to end the root rank before it has printed.
bool leave_to_first_rank();

/// Must be called where an exception was caught: prints the error and returns its exit code.
int report_failure();

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_TERMINAL_FAILURE_H_
