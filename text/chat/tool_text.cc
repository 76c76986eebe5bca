#include "text/chat/tool_text.h"

#include <string>
#include <utility>

#include "files/text.h"

namespace ballast::text {
namespace {

using nlohmann::ordered_json;

std::string dump(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string description_of(const ordered_json& tools) {
  std::string text =
      "You may call functions to answer. They are described by JSON schemas between <tools> and </tools>:\n<tools>\n";
  for (const ordered_json& tool : tools) text += dump(tool) + "\n";
  return text +
         "</tools>\nTo call a function, answer with its name and arguments as a JSON object between <tool_call> and "
         "</tool_call>:\n<tool_call>\n{\"name\": \"NAME\", \"arguments\": {...}}\n</tool_call>";
}

void add_line(std::string_view text, ordered_json& content) {
  std::string joined = content.is_string() ? content.get<std::string>() : std::string();
  if (!joined.empty()) joined += '\n';
  content = joined + std::string(text);
}

void write_calls(ordered_json& message) {
  for (const ordered_json& call : message.at("tool_calls")) {
    const ordered_json function = call.value("function", call);
    ordered_json arguments = function.value("arguments", ordered_json::object());
    if (arguments.is_string()) {
      ordered_json object = ordered_json::parse(arguments.get<std::string>(), nullptr, false);
      if (object.is_object()) arguments = std::move(object);
    }
    const ordered_json written = {{"name", function.value("name", "")}, {"arguments", std::move(arguments)}};
    add_line(files::concat("<tool_call>\n", dump(written), "\n</tool_call>"), message["content"]);
  }
  message.erase("tool_calls");
}

}  // namespace

Conversation with_tools_as_text(const Conversation& conversation) {
  Conversation written = conversation;
  written.messages = ordered_json::array();
  written.tools = nullptr;
  if (!conversation.tools.empty()) {
    written.messages.push_back({{"role", "system"}, {"content", description_of(conversation.tools)}});
  }
  bool follows_result = false;
  for (ordered_json message : conversation.messages) {
    const std::string role = message.value("role", "");
    const bool is_result = role == "tool";
    if (role == "system" && written.messages.size() == 1 && !conversation.tools.empty()) {
      // The system's own text comes first.
      ordered_json& first = written.messages.front();
      add_line("\n" + first["content"].get<std::string>(), message["content"]);
      first = std::move(message);
      continue;
    }
    if (message.contains("tool_calls")) write_calls(message);
    if (is_result) {
      const std::string text =
          files::concat("<tool_response>\n", message["content"].get<std::string>(), "\n</tool_response>");
      // Several results of one turn are one message of the user, since templates let roles alternate.
      if (follows_result) {
        add_line(text, written.messages.back()["content"]);
        continue;
      }
      message = {{"role", "user"}, {"content", text}};
    }
    written.messages.push_back(std::move(message));
    follows_result = is_result;
  }
  return written;
}

}  // namespace ballast::text
