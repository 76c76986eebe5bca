#include "tools/commands/chat.h"

#include <csignal>
#include <string>
#include <vector>

#include "tools/commands/commands.h"
#include "tools/commands/generation_output.h"
#include "tools/terminal/console.h"
#include "tools/terminal/interrupt.h"
#include "tools/terminal/line_input.h"

namespace ballast::tools {
namespace {

constexpr const char* kHint = "Ctrl-C stops an answer, /clear forgets what was said, Ctrl-D leaves.\n";

/// Answers the last message. Returns the answer, which may have been cut short.
std::string answer(Generator& generator, const std::vector<ChatMessage>& messages, const GenerateOptions& options,
                   bool quiet) {
  GenerationOutput output;
  const GenerateResult result = generator.chat(messages, options, [&](const GenerateStep& step) {
    output.write(step.text);
    return pending_interrupt() == 0;
  });
  output.finish();
  if (!quiet) print_message(timing_line(result) + "\n");
  return result.text;
}

}  // namespace

std::vector<ChatMessage> chat_beginning(const std::string& system) {
  if (system.empty()) return {};
  return {{"system", system}};
}

int converse(Generator& generator, const GenerateOptions& options, const std::string& system, bool quiet) {
  const InterruptGuard guard;
  const bool typed = input_is_terminal();
  if (typed) print_message(kHint);
  LineInput input;
  std::vector<ChatMessage> messages = chat_beginning(system);
  std::string message;
  while (true) {
    if (typed) print_message("> ");
    const LineInput::Status status = input.next(message);
    if (status != LineInput::Status::kLine) {
      if (typed) print_message("\n");
      return status == LineInput::Status::kEnd ? kExitDone : throw Interrupted(pending_interrupt());
    }
    if (message.empty()) continue;
    if (typed && message == "/clear") {
      messages = chat_beginning(system);
      continue;
    }
    messages.push_back({"user", message});
    messages.push_back({"assistant", answer(generator, messages, options, quiet)});
    // Only Ctrl-C at a terminal means the answer alone.
    if (pending_interrupt() != 0 && (!typed || pending_interrupt() != SIGINT)) throw Interrupted(pending_interrupt());
    forget_interrupt();
  }
}

}  // namespace ballast::tools
