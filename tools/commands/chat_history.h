// A conversation that is stored in a file.
#ifndef BALLAST_TOOLS_COMMANDS_CHAT_HISTORY_H_
#define BALLAST_TOOLS_COMMANDS_CHAT_HISTORY_H_

#include <filesystem>
#include <string>
#include <vector>

#include "ballast/chat.h"

namespace ballast::tools {

/// The messages of a conversation, stored in `file` as the JSON list of messages of OpenAI's API with all their fields;
/// in memory only if `file` is empty.
class ChatHistory {
 public:
  /// Reads the file if it exists. `system`, unless empty, becomes the first message and replaces one in the file.
  /// Throws Error.
  ChatHistory(std::filesystem::path file, const std::string& system);

  const std::vector<ChatMessage>& messages() const { return messages_; }
  void add(ChatMessage message) { messages_.push_back(std::move(message)); }
  void remove_last() { messages_.pop_back(); }

  /// Removes all messages but the system message.
  void clear();

  /// Replaces the file. Throws FileError.
  void save() const;

 private:
  std::filesystem::path file_;
  std::vector<ChatMessage> messages_;
};

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_COMMANDS_CHAT_HISTORY_H_
