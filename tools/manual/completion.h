// Completion of the command line in shells.
#ifndef BALLAST_TOOLS_MANUAL_COMPLETION_H_
#define BALLAST_TOOLS_MANUAL_COMPLETION_H_

#include <string>

#include "tools/manual/command_sheet.h"

namespace ballast::tools {

// Return scripts that the shell sources, or finds under the program's name in its folder for completions. They complete
// commands, options, known values of options, and files.
std::string bash_completion(const CommandSheet& program);
std::string zsh_completion(const CommandSheet& program);
std::string fish_completion(const CommandSheet& program);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_MANUAL_COMPLETION_H_
