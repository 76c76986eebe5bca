#include "text/chat/chat_prompt.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "ballast/error.h"
#include "files/strict_json.h"
#include "files/utf8.h"
#include "text/template/template.h"

namespace ballast::text {
namespace {

using nlohmann::ordered_json;

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

// Adds all names of a message's thinking, because templates read different ones.
ordered_json with_reasoning_names(const ordered_json& message) {
  constexpr std::array kNames = {"reasoning_content", "thinking", "reasoning"};
  for (const char* name : kNames) {
    if (!message.is_object() || !message.contains(name) || message[name].is_null()) continue;
    ordered_json named = message;
    if (!named.contains("thinking")) named["thinking"] = message[name];
    named["reasoning_content"] = message[name];
    return named;
  }
  return message;
}

/// Returns whether a template reads thinking as a part of the content, as those of Mistral's models do.
bool wants_thinking_parts(std::string_view source) {
  const bool names_type = source.contains("'thinking'") || source.contains("\"thinking\"");
  return names_type && source.contains("[THINK]") && !source.contains("reasoning_content");
}

void move_thinking_to_content(ordered_json& message) {
  if (!message.is_object() || !message.contains("thinking") || !message["thinking"].is_string()) return;
  if (message.value("role", "") != "assistant" || !message["content"].is_string()) return;
  ordered_json parts = {{{"type", "thinking"}, {"thinking", message["thinking"]}}};
  if (!message["content"].get_ref<const std::string&>().empty())
    parts.push_back({{"type", "text"}, {"text", message["content"]}});
  message["content"] = std::move(parts);
}

/// Returns a word that no message contains. Its last character is a space, which is missing in the prompt if the
/// template strips messages.
std::string make_end_mark(const ordered_json& messages) {
  const std::string text = messages.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  std::string mark = "END_OF_FINAL_MESSAGE";
  while (text.contains(mark)) mark += "_";
  return mark + " ";
}

/// Appends `mark` to the text of a message, or to its last text part.
void append_to_content(ordered_json& message, const std::string& mark) {
  ordered_json& content = message["content"];
  if (content.is_array()) {
    for (auto part = content.rbegin(); part != content.rend(); ++part) {
      if (!part->is_object() || !part->contains("text") || !part->at("text").is_string()) continue;
      part->at("text").get_ref<std::string&>() += mark;
      return;
    }
    content.push_back({{"type", "text"}, {"text", mark}});
  } else {
    content = content.is_string() ? content.get<std::string>() + mark : mark;
  }
}

/// Cuts the prompt at the end of the final message's text, before `mark`. If the template strips text and mark, the
/// text is stripped, too, as in transformers.
void cut_at_mark(ChatPrompt& prompt, std::string_view mark) {
  constexpr std::string_view kSpaces = " \t\n\r\f\v";
  const std::string_view word = mark.substr(0, mark.size() - 1);
  std::size_t end = prompt.text.rfind(word);
  if (end == std::string::npos) {
    throw Error("conversation", "the chat template leaves out the text of the final message: it cannot be continued");
  }
  if (!std::string_view(prompt.text).substr(end).starts_with(mark)) {
    while (end > 0 && kSpaces.contains(prompt.text[end - 1])) --end;
  }
  prompt.text.resize(end);
  while (!prompt.from_user.empty() && prompt.from_user.back().begin >= end) prompt.from_user.pop_back();
  if (!prompt.from_user.empty()) prompt.from_user.back().end = std::min(prompt.from_user.back().end, end);
}

/// Parses a valid object and keeps the order of its members.
ordered_json parse_object(const std::string& text, const char* context) {
  if (!files::is_utf8(text)) throw Error(context, "is not UTF-8");
  if (!files::parse_strict_json(text, context).is_object()) throw Error(context, "must be a JSON object");
  return ordered_json::parse(text);
}

bool is_text_part(const ordered_json& part) {
  return part.is_object() && part.contains("type") && part["type"] == "text" && part.contains("text") &&
         part["text"].is_string();
}

/// Joins the texts of a content's parts with line breaks.
std::string text_of_parts(const ordered_json& parts) {
  std::string text;
  for (const ordered_json& part : parts) {
    if (!is_text_part(part)) continue;
    if (!text.empty()) text += '\n';
    text += part["text"];
  }
  return text;
}

/// How a template reads the arguments of a call.
enum class CallArgumentsAs { kObject, kText };

/// Calls `convert` with the arguments of each tool call of a message.
template <typename Convert>
void convert_call_arguments(ordered_json& message, const Convert& convert) {
  if (!message.is_object() || !message.contains("tool_calls") || !message["tool_calls"].is_array()) return;
  for (ordered_json& call : message["tool_calls"]) {
    if (!call.is_object()) continue;
    ordered_json& function = call.contains("function") ? call["function"] : call;
    if (function.is_object() && function.contains("arguments")) convert(function["arguments"]);
  }
}

/// Replaces text by the object that it is the JSON of; other text remains.
void make_object(ordered_json& arguments) {
  if (!arguments.is_string()) return;
  const std::string text = arguments.get<std::string>();
  try {
    arguments = parse_object(text.empty() ? "{}" : text, "arguments");
  } catch (const Error&) {  // what a model has written is not always JSON: the template decides
    return;
  }
}

void make_text(ordered_json& arguments) {
  if (!arguments.is_string()) arguments = arguments.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/// Renders a short conversation with a call to see what the template writes. One that joins the arguments with text
/// fails for an object, or writes it as Python does.
CallArgumentsAs find_call_arguments_kind(const jinja::Template& chat_template, const jinja::Variables& variables) {
  const auto rendered = [&](const ordered_json& arguments) -> std::optional<std::string> {
    jinja::Variables sample = variables;
    const ordered_json call = {
        {"id", "call00000"}, {"type", "function"}, {"function", {{"name", "sum"}, {"arguments", arguments}}}};
    sample.from_user["messages"] = {
        {{"role", "user"}, {"content", "1"}},
        {{"role", "assistant"}, {"content", ""}, {"tool_calls", {call}}},
        {{"role", "tool"}, {"content", "1"}, {"tool_call_id", "call00000"}, {"name", "sum"}}};
    sample.trusted["add_generation_prompt"] = true;
    try {
      return chat_template.render(sample).text;
    } catch (const Error&) {
      return std::nullopt;
    }
  };
  const std::optional<std::string> with_object = rendered({{"term_one", "x"}});
  if (with_object && !with_object->contains("'term_one'")) return CallArgumentsAs::kObject;
  const std::optional<std::string> with_text = rendered(R"({"term_one": "x"})");
  return with_text && with_text->contains("term_one") ? CallArgumentsAs::kText : CallArgumentsAs::kObject;
}

ordered_json from_users(const Conversation& conversation, std::string_view source, const std::string& end_mark) {
  ordered_json variables = {{"tools", conversation.tools}, {"documents", nullptr}};
  for (const auto& [name, value] : conversation.arguments.items()) {
    if (name == "messages" || name == "tools") throw Error("arguments of the chat template", "cannot replace " + name);
    variables[name] = value;
  }
  ordered_json messages = ordered_json::array();
  for (const ordered_json& message : conversation.messages) {
    messages.push_back(with_reasoning_names(message));
    if (wants_thinking_parts(source)) move_thinking_to_content(messages.back());
  }
  if (!end_mark.empty()) append_to_content(messages.back(), end_mark);
  variables["messages"] = std::move(messages);
  return variables;
}

bool is_plain(const ordered_json& message, std::string_view role) {
  return message.is_object() && message.value("role", "") == role && message.contains("content") &&
         message["content"].is_string() && message.size() == 2;
}

/// Returns a conversation as the strictest templates want it: one message of the system, at the beginning, and no two
/// of users in a row, nor one right after a tool's result. Later messages of the system become the user's.
ordered_json with_alternating_turns(const ordered_json& messages) {
  ordered_json merged = ordered_json::array();
  for (const ordered_json& message : messages) {
    ordered_json own = message;
    const bool begins = merged.empty() || (merged.size() == 1 && is_plain(merged[0], "system"));
    if (!begins && is_plain(own, "system")) own["role"] = "user";
    const bool joins =
        !merged.empty() &&
        ((is_plain(own, "system") && is_plain(merged.back(), "system")) ||
         (is_plain(own, "user") && is_plain(merged.back(), "user")) ||
         (is_plain(own, "user") && merged.back().value("role", "") == "tool" && merged.back()["content"].is_string()));
    if (joins) {
      merged.back()["content"].get_ref<std::string&>() += "\n\n" + own["content"].get<std::string>();
    } else {
      merged.push_back(std::move(own));
    }
  }
  return merged;
}

/// Counts the bytes of all strings, and one for each other value.
std::size_t text_bytes(const ordered_json& value) {
  std::size_t bytes = value.is_string() ? value.get_ref<const std::string&>().size() : 1;
  if (!value.is_structured()) return bytes;
  for (const auto& [key, member] : value.items()) bytes += (value.is_object() ? key.size() : 0) + text_bytes(member);
  return bytes;
}

/// Returns limits that grow with the conversation, because a template copies each message's text several times. So a
/// short conversation cannot use much memory, for any numbers it passes to the template.
jinja::Limits limits_for(const ordered_json& from_user) {
  constexpr std::size_t kLeastCharacters = 8'000'000;
  constexpr std::size_t kLeastSteps = 2'000'000;
  const std::size_t bytes = text_bytes(from_user);
  const jinja::Limits most;
  return {.steps = std::min(most.steps, kLeastSteps + 4 * bytes),
          .characters = std::min(most.characters, kLeastCharacters + 16 * bytes)};
}

/// Renders a conversation, with merged turns if the template refuses those that it has: agents send messages of the
/// system between others, and several messages in a row. Throws Error.
jinja::Rendered render_turns(const jinja::Template& chat_template, jinja::Variables variables) {
  const jinja::Limits limits = limits_for(variables.from_user);
  try {
    return chat_template.render(variables, limits);
  } catch (const Error&) {
    ordered_json merged = with_alternating_turns(variables.from_user["messages"]);
    if (merged == variables.from_user["messages"]) throw;
    variables.from_user["messages"] = std::move(merged);
  }
  return chat_template.render(variables, limits);
}

/// Returns the template for a conversation with tools or without.
const std::string& template_source(const Tokenizer& tokenizer, bool has_tools) {
  const std::string& for_tools = tokenizer.tool_chat_template();
  return has_tools && !for_tools.empty() ? for_tools : tokenizer.chat_template();
}

bool has_calls(const ordered_json& messages) {
  return std::ranges::any_of(messages, [](const ordered_json& message) { return message.contains("tool_calls"); });
}

}  // namespace

ordered_json chat_message_json(const ChatMessage& message) {
  ordered_json json = {{"role", files::replace_invalid_utf8(message.role)},
                       {"content", files::replace_invalid_utf8(message.content)}};
  if (message.fields.empty()) return json;
  const ordered_json fields = parse_object(message.fields, "fields of a chat message");
  if (fields.contains("role")) throw Error("fields of a chat message", "cannot replace role");
  json.update(fields);
  return json;
}

ChatMessage read_chat_message(const ordered_json& json, const std::string& context) {
  const auto text_of = [&](const char* name) {
    if (!json.contains(name) || !json[name].is_string()) throw Error(context, std::string(name) + " must be a string");
    return json[name].get<std::string>();
  };
  if (!json.is_object()) throw Error(context, "must be an object");
  ChatMessage message = {.role = text_of("role"), .content = {}};
  ordered_json fields = json;
  fields.erase("role");
  const bool has_content = json.contains("content") && !json["content"].is_null();
  if (has_content && json["content"].is_array()) {
    for (const ordered_json& part : json["content"]) {
      if (!part.is_object() || !part.contains("type")) throw Error(context, "content: each part must have a type");
    }
    message.content = text_of_parts(json["content"]);
  } else {
    if (has_content || message.role != "assistant") message.content = text_of("content");
    fields.erase("content");
  }
  if (!fields.empty()) message.fields = fields.dump();
  return message;
}

Conversation make_conversation(std::span<const ChatMessage> messages, const std::string& arguments) {
  Conversation conversation;
  for (const ChatMessage& message : messages) {
    conversation.messages.push_back(chat_message_json(message));
    // Many templates do not support parts.
    ordered_json& content = conversation.messages.back()["content"];
    if (content.is_array() && std::ranges::all_of(content, is_text_part)) content = text_of_parts(content);
  }
  if (!arguments.empty()) conversation.arguments = parse_object(arguments, "arguments of the chat template");
  return conversation;
}

bool template_takes_tools(const Tokenizer& tokenizer) {
  return template_source(tokenizer, true).contains("tools");
}

ChatPrompt apply_chat_template(const Tokenizer& tokenizer, const Conversation& conversation,
                               const std::optional<std::tm>& now) {
  if (conversation.messages.empty()) throw Error("conversation", "has no message");
  const bool has_tools = conversation.tools.is_array() && !conversation.tools.empty();
  const std::string& source = template_source(tokenizer, has_tools);
  if (source.empty()) throw Error("chat template", "the model has none; give a plain prompt instead");
  if (has_tools && !template_takes_tools(tokenizer)) throw Error("chat template", "does not support tools");
  const std::string end_mark = conversation.continue_final_message ? make_end_mark(conversation.messages) : "";
  jinja::Variables variables{.trusted = tokenizer.special_tokens(),
                             .from_user = from_users(conversation, source, end_mark),
                             .now = now ? *now : local_time()};
  variables.trusted["add_generation_prompt"] =
      conversation.add_generation_prompt && !conversation.continue_final_message;
  const jinja::Template chat_template(source);
  if (has_calls(variables.from_user["messages"])) {
    const CallArgumentsAs kind = find_call_arguments_kind(chat_template, variables);
    for (ordered_json& message : variables.from_user["messages"]) {
      convert_call_arguments(message, kind == CallArgumentsAs::kText ? make_text : make_object);
    }
  }
  jinja::Rendered rendered = render_turns(chat_template, std::move(variables));
  ChatPrompt prompt = {.text = std::move(rendered.text),
                       .from_user = std::move(rendered.from_user),
                       .continues_message = conversation.continue_final_message};
  if (!end_mark.empty()) cut_at_mark(prompt, end_mark);
  return prompt;
}

std::vector<int> encode(const Tokenizer& tokenizer, const ChatPrompt& prompt, std::size_t most) {
  return tokenizer.encode(prompt.text, prompt.from_user, most);
}

}  // namespace ballast::text
