// There is no Jinja here: a template is recognised by its family, and the family is written out.
#include <string>
#include <string_view>

#include "ballast/error.h"
#include "model/checkpoint/text.h"
#include "model/tokenizer/tokenizer.h"

namespace ballast::model {
namespace {

constexpr std::string_view kBegin = "<|im_start|>";
constexpr std::string_view kEnd = "<|im_end|>";

// The text between Jinja's quotes with its escapes resolved.
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

// Whether `span` leaves the string literal that it begins in, so that it is program rather than text.
bool leaves_literal(std::string_view span) {
  for (const std::string_view mark : {"{{", "}}", "{%", "%}", "' +", "'+", "\" +", "\"+"}) {
    if (span.find(mark) != std::string_view::npos) return true;
  }
  return false;
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

// Templates that change the messages' text on the way are not plain ChatML.
bool is_chatml(std::string_view chat_template) {
  const auto has = [&](std::string_view part) { return chat_template.find(part) != std::string_view::npos; };
  return has(kBegin) && has(kEnd) && has("add_generation_prompt") && !has("trim") && !has("strip(") && !has("</think>");
}

}  // namespace

std::string apply_chat_template(const Tokenizer& tokenizer, const std::vector<ChatMessage>& messages) {
  const std::string& chat_template = tokenizer.chat_template();
  if (chat_template.empty()) throw Error("chat template", "the model has none; give a plain prompt instead");
  if (!is_chatml(chat_template)) {
    throw Error("chat template", "only plain ChatML is supported, this one begins with " +
                                     in_quotes(std::string_view(chat_template).substr(0, 60)));
  }
  std::string prompt;
  const auto add = [&](std::string_view role, std::string_view content) {
    prompt.append(kBegin).append(role).append("\n").append(content).append(kEnd).append("\n");
  };
  if (messages.empty() || messages.front().role != "system") {
    const std::string system = default_system_message(chat_template);
    if (!system.empty()) add("system", system);
  }
  for (const ChatMessage& message : messages) add(message.role, message.content);
  return prompt.append(kBegin).append("assistant\n");
}

}  // namespace ballast::model
