#include "tools/commands/chat_history.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "ballast/error.h"
#include "files/atomic_output.h"
#include "files/strict_json.h"
#include "files/text.h"
#include "files/text_file.h"
#include "text/chat/chat_prompt.h"

namespace ballast::tools {
namespace {

constexpr const char* kSystem = "system";

std::vector<ChatMessage> read_messages(const std::filesystem::path& file) {
  const std::string text = files::read_text_file(file);
  files::parse_strict_json(text, file.string());
  const nlohmann::ordered_json list = nlohmann::ordered_json::parse(text);
  if (!list.is_array()) throw Error(file.string(), "must be a list of messages");
  std::vector<ChatMessage> messages;
  for (const nlohmann::ordered_json& message : list) {
    messages.push_back(text::read_chat_message(message, files::concat(file.string(), ": [", messages.size(), "]")));
  }
  return messages;
}

}  // namespace

ChatHistory::ChatHistory(std::filesystem::path file, const std::string& system) : file_(std::move(file)) {
  if (!file_.empty() && std::filesystem::exists(file_)) messages_ = read_messages(file_);
  if (system.empty()) return;
  if (!messages_.empty() && messages_.front().role == kSystem) messages_.erase(messages_.begin());
  messages_.insert(messages_.begin(), {.role = kSystem, .content = system});
}

void ChatHistory::clear() {
  const bool has_system = !messages_.empty() && messages_.front().role == kSystem;
  messages_.resize(has_system ? 1 : 0);
}

void ChatHistory::save() const {
  if (file_.empty()) return;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ChatMessage& message : messages_) list.push_back(text::chat_message_json(message));
  files::write_file_atomically(file_, list.dump(2) + "\n", true);
}

}  // namespace ballast::tools
