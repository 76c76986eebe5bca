// Llama 2's [INST] <<SYS>> and the headers of Llama 3 and later.
#include <array>

#include "text/chat/chat_families.h"

namespace ballast::text {
namespace {

bool is_llama2(std::string_view chat_template) {
  return has_all(chat_template,
                 {"<<SYS>>", "<</SYS>>", "bos_token + '[INST] '", "content.strip()", "' [/INST]'", "' '", "eos_token"});
}

std::string render_llama2(const Chat& chat) {
  std::span<const ChatMessage> messages = chat.messages;
  const ChatMessage* system = take_system(messages);
  require_alternating(messages);
  std::string prompt;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    std::string content = messages[i].content;
    if (i == 0 && system != nullptr) content = "<<SYS>>\n" + system->content + "\n<</SYS>>\n\n" + content;
    if (messages[i].role == "user") {
      prompt += chat.bos + "[INST] " + trimmed(content) + " [/INST]";
    } else {
      prompt += " " + trimmed(content) + " " + chat.eos;
    }
  }
  return prompt;
}

constexpr std::string_view kCutoff = "Cutting Knowledge Date: December 2023\n";
constexpr std::string_view kGivenDate = "set date_string = \"";

bool is_llama3(std::string_view chat_template) {
  if (!has_all(chat_template, {"<|start_header_id|>", "<|end_header_id|>\\n\\n", "<|eot_id|>", "trim", "bos_token",
                               "add_generation_prompt"})) {
    return false;
  }
  // Later ones begin every conversation with a date.
  return !chat_template.contains("Cutting Knowledge Date") ||
         (chat_template.contains("Cutting Knowledge Date: December 2023\\n\"") &&
          has_all(chat_template, {"Today Date: \" + date_string", kGivenDate}));
}

// "26 Jul 2024"
std::string written_date(const std::chrono::year_month_day& date) {
  constexpr std::array<std::string_view, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto day = static_cast<unsigned>(date.day());
  return (day < 10 ? "0" : "") + std::to_string(day) + " " +
         std::string(kMonths[static_cast<unsigned>(date.month()) - 1]) + " " +
         std::to_string(static_cast<int>(date.year()));
}

std::string date_of(const Chat& chat) {
  if (chat.chat_template.contains("strftime_now(\"%d %b %Y\")")) return written_date(chat.today);
  const std::size_t begin = chat.chat_template.find(kGivenDate) + kGivenDate.size();
  return std::string(chat.chat_template.substr(begin, chat.chat_template.find('"', begin) - begin));
}

std::string render_llama3(const Chat& chat) {
  std::string prompt = chat.bos;
  const auto add = [&](std::string_view role, std::string_view content) {
    prompt.append("<|start_header_id|>").append(role).append("<|end_header_id|>\n\n");
    prompt.append(content).append("<|eot_id|>");
  };
  std::span<const ChatMessage> messages = chat.messages;
  if (chat.chat_template.contains("Cutting Knowledge Date")) {
    const ChatMessage* system = take_system(messages);
    add("system", std::string(kCutoff) + "Today Date: " + date_of(chat) + "\n\n" +
                      (system != nullptr ? trimmed(system->content) : std::string()));
  }
  for (const ChatMessage& message : messages) add(message.role, trimmed(message.content));
  return prompt + "<|start_header_id|>assistant<|end_header_id|>\n\n";
}

}  // namespace

const ChatFamily kLlama2Chat{"Llama 2", is_llama2, render_llama2};
const ChatFamily kLlama3Chat{"Llama 3", is_llama3, render_llama3};

}  // namespace ballast::text
