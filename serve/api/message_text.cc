#include "serve/api/message_text.h"

#include "ballast/error.h"
#include "files/text.h"
#include "serve/api/request_fields.h"

namespace ballast::serve {
namespace {

/// Reads one part of a message, which must be text: an object, or the text itself.
std::string read_part(const files::JsonReader& part) {
  if (part.json().is_string()) return part.string();
  const std::string type = part.text("type", "text");
  if (type == "refusal") return part.text("refusal");
  if (type != "text" && type != "input_text" && type != "output_text") {
    part.fail(files::concat("type ", files::in_quotes(type), " is not supported: only \"text\" is"));
  }
  return part.text("text");
}

bool is_thinking(const files::JsonReader& part) {
  return part.json().is_object() && part.text("type", "text") == "thinking";
}

}  // namespace

std::string read_parts_text(const files::JsonReader& parts) {
  std::string text;
  for (const files::JsonReader& part : parts.elements()) {
    const std::string piece = read_part(part);
    if (!text.empty()) text += '\n';
    text += piece;
  }
  return text;
}

std::string read_message_text(const files::JsonReader& message, bool by_assistant) {
  if (by_assistant || message.json().contains("content")) {
    if (!message.has("content")) return {};
  }
  const files::JsonReader content = message.at("content");
  if (content.json().is_string()) return content.string();
  std::string text;
  for (const files::JsonReader& part : content.elements()) {
    if (by_assistant && is_thinking(part)) continue;
    const std::string piece = read_part(part);
    if (!text.empty()) text += '\n';
    text += piece;
  }
  return text;
}

std::string read_message_thinking(const files::JsonReader& message) {
  std::string text;
  if (!message.has("content") || !message.json().at("content").is_array()) return text;
  for (const files::JsonReader& part : message.at("content").elements()) {
    if (!is_thinking(part)) continue;
    const files::JsonReader thinking = part.at("thinking");
    if (thinking.json().is_string()) {
      text += thinking.string();
    } else {
      for (const files::JsonReader& piece : thinking.elements()) text += read_part(piece);
    }
  }
  return text;
}

nlohmann::ordered_json read_call_arguments(const std::string& text) {
  try {
    nlohmann::ordered_json object = parse_ordered_json(text, "arguments");
    return object.is_object() ? object : nlohmann::ordered_json(text);
  } catch (const Error&) {
    return text;
  }
}

}  // namespace ballast::serve
