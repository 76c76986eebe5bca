#include "serve/api/chat_request.h"

#include <algorithm>

namespace ballast::serve {

std::string constraint_field(const ChatRequest& request) {
  if (request.answer.constraint) return request.answer.field;
  return request.conversation.tools.empty() ? std::string() : "tools";
}

bool mentions_tools(const text::Conversation& conversation) {
  if (!conversation.tools.empty()) return true;
  return std::ranges::any_of(conversation.messages, [](const nlohmann::ordered_json& message) {
    return message.at("role") == "tool" || message.contains("tool_calls");
  });
}

}  // namespace ballast::serve
