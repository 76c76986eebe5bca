#include "tools/commands/chat.h"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "ballast/error.h"
#include "files/utf8.h"
#include "tools/commands/commands.h"
#include "tools/terminal/console.h"
#include "tools/terminal/interrupt.h"
#include "tools/terminal/line_input.h"

namespace ballast::tools {
namespace {

constexpr const char* kHint = "Ctrl-C stops an answer, /clear starts a new chat, Ctrl-D ends the program.\n";

/// Returns the message with its thinking and its calls under the names that chat templates use.
ChatMessage answer_message(const GenerateResult& result) {
  ChatMessage message = {.role = "assistant", .content = result.text};
  nlohmann::ordered_json fields;
  if (!result.thinking.empty()) fields["reasoning_content"] = files::replace_invalid_utf8(result.thinking);
  for (std::size_t i = 0; i < result.tool_calls.size(); ++i) {
    const ToolCall& call = result.tool_calls[i];
    const std::string number = std::to_string(i + 1);
    // Mistral's templates need an id of nine letters and digits.
    const std::string id = "call" + std::string(5 - std::min<std::size_t>(number.size(), 5), '0') + number;
    fields["tool_calls"].push_back({{"id", id},
                                    {"type", "function"},
                                    {"function",
                                     {{"name", files::replace_invalid_utf8(call.name)},
                                      {"arguments", files::replace_invalid_utf8(call.arguments)}}}});
  }
  if (!fields.empty()) message.fields = fields.dump();
  return message;
}

std::string cut_text(const GenerateResult& result) {
  return result.finish == GenerateResult::Finish::kLength ? "; cut off by -n or the context" : "";
}

}  // namespace

Chat::Chat(Generator& generator, GenerateOptions options, ChatHistory history, ShownThinking shown, bool quiet)
    : generator_(generator), options_(std::move(options)), history_(std::move(history)), shown_(shown), quiet_(quiet) {}

void Chat::answer(const std::string& message) {
  answer(message, false);
}

/// `interruptible`: an interrupt ends the answer early.
void Chat::answer(const std::string& message, bool interruptible) {
  history_.add({.role = "user", .content = message});
  const GenerateResult result = [&] {
    try {
      return generated(interruptible);
    } catch (...) {
      history_.remove_last();
      throw;
    }
  }();
  history_.add(answer_message(result));
  history_.save();
  if (!quiet_) print_message(timing_line(result) + cut_text(result) + "\n");
}

/// Generates the next message and prints it as it is generated.
GenerateResult Chat::generated(bool interruptible) {
  GenerationOutput output(shown_);
  GenerateResult result = generator_.chat(history_.messages(), options_, [&](const GenerateStep& step) {
    output.write(step.text, step.kind);
    return !interruptible || pending_interrupt() == 0;
  });
  for (const ToolCall& call : result.tool_calls) output.write_call(call);
  output.finish();
  return result;
}

int Chat::converse() {
  const InterruptGuard guard;
  const bool typed = input_is_terminal();
  if (typed) print_message(kHint);
  LineInput input;
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
      history_.clear();
      history_.save();
      continue;
    }
    try {
      answer(message, true);
    } catch (const Error& error) {
      if (!typed) throw;
      print_message(std::string("ballast: ") + error.what() + "\n" + kHint);
    }
    // Only Ctrl-C at a terminal ends just the answer.
    if (pending_interrupt() != 0 && (!typed || pending_interrupt() != SIGINT)) throw Interrupted(pending_interrupt());
    forget_interrupt();
  }
}

}  // namespace ballast::tools
