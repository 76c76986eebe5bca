// A conversation with a model.
#ifndef BALLAST_TOOLS_COMMANDS_CHAT_H_
#define BALLAST_TOOLS_COMMANDS_CHAT_H_

#include "ballast/generate.h"

namespace ballast::tools {

/// Answers the lines of standard input, each a message, until it ends; returns the exit code. On a terminal Ctrl-C
/// stops an answer; at the prompt, or for the second time, it leaves.
int converse(Generator& generator, const GenerateOptions& options, bool quiet);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_COMMANDS_CHAT_H_
