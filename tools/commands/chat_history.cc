#include "tools/commands/chat_history.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "files/atomic_output.h"
#include "files/json_reader.h"
#include "files/strict_json.h"
#include "files/text_file.h"

namespace ballast::tools {
namespace {

constexpr const char* kSystem = "system";

std::vector<ChatMessage> read_messages(const std::filesystem::path& file) {
  const nlohmann::json json = files::parse_strict_json(files::read_text_file(file), file.string());
  std::vector<ChatMessage> messages;
  for (const files::JsonReader& message : files::JsonReader(json, file.string()).elements()) {
    messages.push_back({.role = message.text("role"), .content = message.text("content")});
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
  for (const ChatMessage& message : messages_) list.push_back({{"role", message.role}, {"content", message.content}});
  // An answer that was cut short may end within a character.
  const std::string text = list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  files::write_file_atomically(file_, text + "\n", true);
}

}  // namespace ballast::tools
