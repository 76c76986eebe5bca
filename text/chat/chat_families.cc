#include "text/chat/chat_families.h"

#include <algorithm>

#include "ballast/error.h"
#include "text/unicode/text_transforms.h"

namespace ballast::text {

bool has_all(std::string_view chat_template, std::initializer_list<std::string_view> parts) {
  return std::ranges::all_of(parts, [&](std::string_view part) { return chat_template.contains(part); });
}

bool has_any(std::string_view chat_template, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return chat_template.contains(part); });
}

std::string unescape(std::string_view literal) {
  std::string text;
  for (std::size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\' || i + 1 == literal.size()) {
      text += literal[i];
      continue;
    }
    const char escaped = literal[++i];
    text += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
  }
  return text;
}

std::string generation_prompt(std::string_view chat_template) {
  const std::size_t condition = chat_template.rfind("if add_generation_prompt");
  if (condition == std::string_view::npos) return {};
  const std::size_t block = chat_template.find("{{", condition);
  if (block == std::string_view::npos) return {};
  const std::size_t open = chat_template.find_first_of("'\"", block);
  if (open == std::string_view::npos) return {};
  std::size_t close = open + 1;
  while (close < chat_template.size() && chat_template[close] != chat_template[open]) {
    close += chat_template[close] == '\\' ? 2 : 1;
  }
  if (close >= chat_template.size()) return {};
  return unescape(chat_template.substr(open + 1, close - open - 1));
}

std::string trimmed(std::string_view text) {
  return std::string(strip(text, true, true));
}

const ChatMessage* take_system(std::span<const ChatMessage>& messages) {
  if (messages.empty() || messages.front().role != "system") return nullptr;
  const ChatMessage* system = &messages.front();
  messages = messages.subspan(1);
  return system;
}

void require_alternating(std::span<const ChatMessage> messages) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role != (i % 2 == 0 ? "user" : "assistant")) {
      throw Error("conversation", "this model's template wants user and assistant in turns, message " +
                                      std::to_string(i + 1) + " is of the role " + messages[i].role);
    }
  }
}

}  // namespace ballast::text
