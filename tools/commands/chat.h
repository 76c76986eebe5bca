// A conversation with a model.
#ifndef BALLAST_TOOLS_COMMANDS_CHAT_H_
#define BALLAST_TOOLS_COMMANDS_CHAT_H_

#include <string>

#include "ballast/generate.h"
#include "tools/commands/chat_history.h"
#include "tools/commands/generation_output.h"

namespace ballast::tools {

class Chat {
 public:
  /// The generator must outlive this object. `quiet`: prints no timing.
  Chat(Generator& generator, GenerateOptions options, ChatHistory history, ShownThinking shown, bool quiet);

  /// Answers one message and saves the history.
  void answer(const std::string& message);

  /// Answers the lines of standard input, each of which is a message, until it ends; returns the exit code. On a
  /// terminal Ctrl-C stops an answer; at the prompt, or a second time, it ends the chat.
  int converse();

 private:
  void answer(const std::string& message, bool interruptible);
  GenerateResult generated(bool interruptible);

  Generator& generator_;
  GenerateOptions options_;
  ChatHistory history_;
  ShownThinking shown_;
  bool quiet_;
};

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_COMMANDS_CHAT_H_
