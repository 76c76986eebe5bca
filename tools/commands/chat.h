// A conversation with a model.
#ifndef BALLAST_TOOLS_COMMANDS_CHAT_H_
#define BALLAST_TOOLS_COMMANDS_CHAT_H_

#include <string>
#include <vector>

#include "ballast/generate.h"

namespace ballast::tools {

/// The system message, where there is one.
std::vector<ChatMessage> chat_beginning(const std::string& system);

/// Answers the lines of standard input, each a message, until it ends; returns the exit code. On a terminal Ctrl-C
/// stops an answer; at the prompt, or for the second time, it leaves.
/// `system`: the message that goes before all others; empty for none.
int converse(Generator& generator, const GenerateOptions& options, const std::string& system, bool quiet);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_COMMANDS_CHAT_H_
