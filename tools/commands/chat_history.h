// A conversation in a file.
#ifndef BALLAST_TOOLS_COMMANDS_CHAT_HISTORY_H_
#define BALLAST_TOOLS_COMMANDS_CHAT_HISTORY_H_

#include <filesystem>
#include <string>
#include <vector>

#include "ballast/chat.h"

namespace ballast::tools {

/// What is said, kept in `file` as the JSON list of messages that OpenAI's API takes, each with all its fields; in
/// memory alone where `file` is empty.
class ChatHistory {
 public:
  /// What the file holds, if it is there. `system`, unless empty, is the message before all others, in place of one
  /// that the file has. Throws Error.
  ChatHistory(std::filesystem::path file, const std::string& system);

  const std::vector<ChatMessage>& messages() const { return messages_; }
  void add(ChatMessage message) { messages_.push_back(std::move(message)); }
  void remove_last() { messages_.pop_back(); }

  /// Forgets all but the system message.
  void clear();

  /// Replaces the file. Throws FileError.
  void save() const;

 private:
  std::filesystem::path file_;
  std::vector<ChatMessage> messages_;
};

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_COMMANDS_CHAT_HISTORY_H_
