// DeepSeek: V2's plain "User: " and the marks of V2.5, V3 and R1.
#include "text/chat/chat_families.h"

namespace ballast::text {
namespace {

constexpr std::string_view kUser = "<\xEF\xBD\x9CUser\xEF\xBD\x9C>";  // full-width bars
constexpr std::string_view kAssistant =
    "<\xEF\xBD\x9C"
    "Assistant\xEF\xBD\x9C>";
constexpr std::string_view kEndOfSentence =
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>";

bool is_v2(std::string_view chat_template) {
  return has_all(chat_template, {"{{ bos_token }}", "'User: ' + message['content'] + '\\n\\n'",
                                 "'Assistant: ' + message['content'] + eos_token", "message['content'] + '\\n\\n' }}",
                                 "'Assistant:'"});
}

std::string render_v2(const Chat& chat) {
  std::string prompt = chat.bos;
  for (const ChatMessage& message : chat.messages) {
    if (message.role == "user") {
      prompt += "User: " + message.content + "\n\n";
    } else if (message.role == "assistant") {
      prompt += "Assistant: " + message.content + chat.eos;
    } else {
      prompt += message.content + "\n\n";
    }
  }
  return prompt + "Assistant:";
}

// V3.1's switch between thinking and not is another family.
bool is_v3(std::string_view chat_template) {
  return has_all(chat_template, {kUser, kAssistant, kEndOfSentence, "is_output_first"}) &&
         has_any(chat_template, {"{{bos_token}}{{ns.system_prompt}}", "{{ bos_token }}{{ ns.system_prompt }}"}) &&
         !has_any(chat_template, {"thinking", "|trim", "strip("});
}

// System messages go to the front: all of them in V3, the last one in R1's distilled models.
std::string system_prompt(const Chat& chat) {
  const bool joins = chat.chat_template.contains("is_first_sp");
  std::string system;
  bool is_first = true;
  for (const ChatMessage& message : chat.messages) {
    if (message.role != "system") continue;
    system = joins && !is_first ? system + "\n\n" + message.content : message.content;
    is_first = false;
  }
  return system;
}

std::string render_v3(const Chat& chat) {
  const bool drops_thoughts = chat.chat_template.contains("split('</think>')[-1]");
  std::string prompt = chat.bos + system_prompt(chat);
  for (const ChatMessage& message : chat.messages) {
    std::string_view content = message.content;
    if (message.role == "user") {
      prompt.append(kUser).append(content);
    } else if (message.role == "assistant") {
      const std::size_t thoughts = drops_thoughts ? content.rfind(kThinkEnd) : std::string_view::npos;
      if (thoughts != std::string_view::npos) content.remove_prefix(thoughts + kThinkEnd.size());
      prompt.append(kAssistant).append(content).append(kEndOfSentence);
    }
  }
  return prompt + generation_prompt(chat.chat_template);
}

}  // namespace

const ChatFamily kDeepSeekV2Chat{"DeepSeek V2", is_v2, render_v2};
const ChatFamily kDeepSeekV3Chat{"DeepSeek V3", is_v3, render_v3};

}  // namespace ballast::text
