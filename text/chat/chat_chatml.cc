// ChatML, as OpenAI specified it and Qwen, SmolLM and many others use it; and Qwen3's, which takes the reasoning out of
// earlier answers.
#include "text/chat/chat_families.h"

namespace ballast::text {
namespace {

constexpr std::string_view kBegin = "<|im_start|>";
constexpr std::string_view kEnd = "<|im_end|>";

// Whether `span` leaves the string literal that it begins in, so that it is program rather than text.
bool leaves_literal(std::string_view span) {
  return has_any(span, {"{{", "}}", "{%", "%}", "' +", "'+", "\" +", "\"+"});
}

// The system message that the template writes when a conversation does not begin with one; empty when it writes none.
std::string default_system_message(std::string_view chat_template) {
  const std::string head = std::string(kBegin) + "system";
  for (std::size_t at = chat_template.find(head); at != std::string_view::npos; at = chat_template.find(head, at + 1)) {
    std::string_view rest = chat_template.substr(at + head.size());
    if (rest.starts_with("\\n")) {
      rest.remove_prefix(2);
    } else if (rest.starts_with("\n")) {
      rest.remove_prefix(1);
    } else {
      continue;
    }
    const std::size_t end = rest.find(kEnd);
    if (end != std::string_view::npos && !leaves_literal(rest.substr(0, end))) return unescape(rest.substr(0, end));
  }
  return {};
}

void add_message(std::string_view role, std::string_view content, std::string& prompt) {
  prompt.append(kBegin).append(role).append("\n").append(content).append(kEnd).append("\n");
}

// Templates that change the messages' text on the way are not plain ChatML.
bool is_chatml(std::string_view chat_template) {
  return has_all(chat_template, {kBegin, kEnd, "add_generation_prompt"}) &&
         !has_any(chat_template, {"trim", "strip(", kThinkEnd, "enable_thinking"}) &&
         generation_prompt(chat_template).starts_with(kBegin);
}

bool writes_bos(std::string_view chat_template) {
  return has_any(chat_template, {"{{ bos_token }}", "{{- bos_token }}", "{{bos_token}}"});
}

std::string render_chatml(const Chat& chat) {
  std::string prompt = writes_bos(chat.chat_template) ? chat.bos : std::string();
  if (chat.messages.empty() || chat.messages.front().role != "system") {
    const std::string system = default_system_message(chat.chat_template);
    if (!system.empty()) add_message("system", system, prompt);
  }
  for (const ChatMessage& message : chat.messages) add_message(message.role, message.content, prompt);
  return prompt + generation_prompt(chat.chat_template);
}

// Where the template chooses between two beginnings of an answer, the default cannot be told by its text alone.
bool is_qwen3(std::string_view chat_template) {
  const std::size_t generation = chat_template.rfind("if add_generation_prompt");
  return has_all(chat_template, {kBegin, kEnd, kThinkEnd, "last_query_index", "multi_step_tool"}) &&
         generation != std::string_view::npos && !has_any(chat_template.substr(generation), {"else %}", "else -%}"}) &&
         !chat_template.contains("|trim");
}

std::string_view strip_lines(std::string_view text, bool left, bool right) {
  while (left && text.starts_with('\n')) text.remove_prefix(1);
  while (right && text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

bool is_tool_response(std::string_view content) {
  return content.starts_with("<tool_response>") && content.ends_with("</tool_response>");
}

std::string render_qwen3(const Chat& chat) {
  // Answers after the last question keep their reasoning.
  std::size_t last_query = chat.messages.empty() ? 0 : chat.messages.size() - 1;
  for (std::size_t i = chat.messages.size(); i-- > 0;) {
    if (chat.messages[i].role != "user" || is_tool_response(chat.messages[i].content)) continue;
    last_query = i;
    break;
  }
  std::string prompt;
  for (std::size_t i = 0; i < chat.messages.size(); ++i) {
    const ChatMessage& message = chat.messages[i];
    std::string_view content = message.content;
    const std::size_t end = content.rfind(kThinkEnd);
    if (message.role != "assistant") {
      add_message(message.role, content, prompt);
      continue;
    }
    std::string_view reasoning;
    if (end != std::string_view::npos) {
      reasoning = strip_lines(content.substr(0, content.find(kThinkEnd)), false, true);
      const std::size_t begin = reasoning.rfind("<think>");
      if (begin != std::string_view::npos) reasoning.remove_prefix(begin + std::string_view("<think>").size());
      reasoning = strip_lines(reasoning, true, true);
      content = strip_lines(content.substr(end + kThinkEnd.size()), true, false);
    }
    const bool thinks = i > last_query && (i + 1 == chat.messages.size() || !reasoning.empty());
    if (thinks) {
      add_message(
          "assistant",
          "<think>\n" + std::string(reasoning) + "\n</think>\n\n" + std::string(strip_lines(content, true, false)),
          prompt);
    } else {
      add_message("assistant", content, prompt);
    }
  }
  return prompt + generation_prompt(chat.chat_template);
}

}  // namespace

const ChatFamily kChatMl{"ChatML", is_chatml, render_chatml};
const ChatFamily kQwen3Chat{"Qwen3", is_qwen3, render_qwen3};

}  // namespace ballast::text
