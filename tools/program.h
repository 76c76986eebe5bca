// The program as a function: parses the command line, runs the command, prints errors.
#ifndef BALLAST_TOOLS_PROGRAM_H_
#define BALLAST_TOOLS_PROGRAM_H_

namespace ballast::tools {

/// Returns the exit code: 0 done, 1 failed, 2 wrong usage, 128 + signal when interrupted. Throws nothing.
int run_program(int argc, const char* const* argv);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_PROGRAM_H_
