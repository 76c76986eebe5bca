#include "serve/api/chat_format.h"

#include <algorithm>
#include <array>
#include <utility>

#include "files/strict_json.h"
#include "files/text.h"
#include "serve/api/field_table.h"

namespace ballast::serve {
namespace {

constexpr std::size_t kMostMessages = 4096;

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

/// Reads text, or a list of text parts, which are joined with line breaks as in vLLM and llama-server; thinking parts
/// of an assistant are left out. Null is an empty text, and so is a missing content of an assistant.
std::string read_content(const files::JsonReader& message, bool by_assistant) {
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

/// Parses the text of a call's arguments as a JSON object; other text is returned unchanged.
nlohmann::json read_arguments_text(const std::string& text) {
  try {
    nlohmann::json object = files::parse_strict_json(text, "arguments");
    return object.is_object() ? object : nlohmann::json(text);
  } catch (const Error&) {
    return text;
  }
}

/// Reads the tool calls of an earlier answer. Clients send a call's arguments as text, chat templates need an object.
nlohmann::json read_tool_calls(const files::JsonReader& value) {
  nlohmann::json calls = nlohmann::json::array();
  for (const files::JsonReader& call : value.elements()) {
    const files::JsonReader function = call.object("function");
    if (function.text("name").empty()) function.fail("name", "must not be empty");
    nlohmann::json& arguments = calls.emplace_back(call.json())["function"]["arguments"];
    if (arguments.is_string()) arguments = read_arguments_text(arguments.get<std::string>());
  }
  return calls;
}

/// Reads an assistant's thinking that is part of its content: text, or a list of text parts.
std::string read_thinking(const files::JsonReader& message) {
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

/// Returns the fields of a message other than role and text, for the chat template. An empty list of calls is left out,
/// because templates only test whether there is one.
std::string read_other_fields(const files::JsonReader& message) {
  nlohmann::json fields = nlohmann::json::object();
  for (const auto& [name, value] : message.json().items()) {
    if (name != "role" && name != "content" && name != "tool_calls" && !value.is_null()) fields[name] = value;
  }
  if (const auto calls = message.find("tool_calls")) {
    if (!calls->elements().empty()) fields["tool_calls"] = read_tool_calls(*calls);
  }
  if (message.text("role") == "assistant" && !fields.contains("reasoning_content")) {
    if (std::string thinking = read_thinking(message); !thinking.empty()) fields["reasoning_content"] = thinking;
  }
  return fields.empty() ? std::string() : fields.dump();
}

ChatMessage read_message(const files::JsonReader& value) {
  constexpr std::array kRoles = {"system", "developer", "user", "assistant", "tool"};
  const std::string role = value.text("role");
  if (std::ranges::find(kRoles, role) == kRoles.end()) {
    value.fail("role",
               files::concat(files::in_quotes(role), " is not supported: system, user, assistant and tool are"));
  }
  if (role != "assistant" && value.has("tool_calls")) value.fail("tool_calls", "are an assistant's");
  return {.role = role == "developer" ? "system" : role,
          .content = read_content(value, role == "assistant"),
          .fields = read_other_fields(value)};
}

nlohmann::ordered_json ordered(const nlohmann::json& json) {
  return nlohmann::ordered_json::parse(json.dump());
}

/// Returns the chat template's arguments. `chat_template_kwargs` are set before the fields with the same meaning.
nlohmann::ordered_json read_arguments(const RequestFields& fields) {
  nlohmann::ordered_json arguments = nlohmann::ordered_json::object();
  fields.read("chat_template_kwargs", [&](const files::JsonReader& options) {
    for (const auto& [name, value] : options.members()) {
      if (name == "messages" || name == "tools") value.fail("cannot be replaced");
      if (name == "add_generation_prompt" || name == "continue_final_message") {
        value.fail("is a field of the request: send it beside chat_template_kwargs");
      }
      arguments[std::string(name)] = ordered(value.json());
    }
    return true;
  });
  fields.read("documents", [&](const files::JsonReader& documents) {
    if (!documents.json().is_array()) documents.fail("must be a list");
    arguments.emplace("documents", ordered(documents.json()));
    return true;
  });
  if (const auto effort = fields.text("reasoning_effort")) {
    arguments.emplace("reasoning_effort", *effort);
    arguments.emplace("enable_thinking", *effort != "none");
  }
  return arguments;
}

std::vector<ChatMessage> read_messages(const RequestFields& fields) {
  const auto read = [](const files::JsonReader& value) {
    std::vector<ChatMessage> messages;
    if (value.json().is_array() && value.json().size() > kMostMessages) {
      value.fail(files::concat("at most ", kMostMessages, " are possible"));
    }
    for (const files::JsonReader& message : value.elements()) messages.push_back(read_message(message));
    if (messages.empty()) value.fail("must not be empty");
    return messages;
  };
  std::optional<std::vector<ChatMessage>> messages = fields.read("messages", read);
  if (!messages) throw ApiError(400, "messages: are missing", "messages");
  return *std::move(messages);
}

/// Reads llama-server's field `reasoning_format`.
std::string read_reasoning_format(const RequestFields& fields) {
  std::string format = fields.text("reasoning_format").value_or("auto");
  if (format != "auto" && format != "none" && format != "deepseek") {
    throw ApiError(400,
                   files::concat("reasoning_format: ", files::in_quotes(format),
                                 " is not supported: \"auto\", \"deepseek\" and \"none\" are"),
                   "reasoning_format");
  }
  return format;
}

/// Writes the thinking under DeepSeek's name and under vLLM's.
void add_thinking(std::string_view thinking, nlohmann::ordered_json& message) {
  if (thinking.empty()) return;
  message["reasoning_content"] = thinking;
  message["reasoning"] = thinking;
}

}  // namespace

bool tells_of_tools(const text::Conversation& conversation) {
  return std::ranges::any_of(conversation.messages, [](const nlohmann::ordered_json& message) {
    return message.at("role") == "tool" || message.contains("tool_calls");
  });
}

text::Conversation read_conversation(const RequestFields& fields) {
  text::Conversation conversation = text::make_conversation(read_messages(fields));
  conversation.arguments = read_arguments(fields);
  conversation.continue_final_message = fields.flag("continue_final_message", false);
  conversation.add_generation_prompt = fields.flag("add_generation_prompt", !conversation.continue_final_message);
  if (conversation.continue_final_message && conversation.add_generation_prompt) {
    throw ApiError(400, "continue_final_message: cannot be true together with add_generation_prompt",
                   "continue_final_message");
  }
  return conversation;
}

ChatRequest read_chat(const RequestFields& fields, std::size_t vocab_size) {
  constexpr std::array<std::string_view, 3> kLimits = {"max_completion_tokens", "max_tokens", "n_predict"};
  check_fields(fields, kChats);
  ChatRequest request = {.conversation = read_conversation(fields),
                         .generation = read_generation(fields, vocab_size),
                         .prompt_options = read_prompt_options(fields, {.add_special_tokens = false}),
                         .limit = read_answer_limit(fields, kLimits),
                         .delivery = read_delivery(fields)};
  const std::optional<std::int64_t> top = fields.integer("top_logprobs", 0, kMostTopLogprobs);
  if (fields.flag("logprobs", false)) {
    request.generation.options.logprobs = static_cast<std::size_t>(top.value_or(0));
  } else if (top.value_or(0) > 0) {
    throw ApiError(400, "top_logprobs: need logprobs to be true", "top_logprobs");
  }
  request.prompt_logprobs = read_prompt_logprobs(fields, request.delivery);
  if (request.prompt_logprobs) {
    request.generation.score_prompt = PromptScores{.top = *request.prompt_logprobs, .ranks = true};
  }
  const text::Conversation& conversation = request.conversation;
  const nlohmann::ordered_json& last = conversation.messages.back();
  if (fields.flag("echo", false) && last["role"] == "assistant") request.echo = last["content"].get<std::string>();
  // An answer that continues a message is within its text.
  request.generation.begin = conversation.continue_final_message ? text::StreamDecoder::Begin::kWithinText
                                                                 : text::StreamDecoder::Begin::kOfText;
  request.parses_reply = read_reasoning_format(fields) != "none";
  request.shows_thinking = fields.flag("include_reasoning", true);
  return request;
}

nlohmann::ordered_json ChatFormat::choice(const TextPart& part) const {
  nlohmann::ordered_json choice = {{"index", part.choice},
                                   {"message", {{"role", "assistant"}, {"content", part.text}, {"refusal", nullptr}}}};
  add_thinking(part.thinking, choice["message"]);
  choice["logprobs"] = logprobs_ ? logprobs_json(part) : nullptr;
  choice["finish_reason"] = finish_reason(part.finish);
  return choice;
}

nlohmann::ordered_json ChatFormat::piece(const TextPart& part) const {
  nlohmann::ordered_json delta = nlohmann::ordered_json::object();
  add_thinking(part.thinking, delta);
  if (!part.text.empty() || (!part.finish && part.thinking.empty())) delta["content"] = part.text;
  nlohmann::ordered_json piece = {{"index", part.choice}, {"delta", std::move(delta)}};
  piece["logprobs"] = logprobs_ && !part.tokens.empty() ? logprobs_json(part) : nullptr;
  piece["finish_reason"] = finish_reason(part.finish);
  return piece;
}

nlohmann::ordered_json ChatFormat::first_piece(std::size_t choice) const {
  return {{"index", choice},
          {"delta", {{"role", "assistant"}, {"content", ""}}},
          {"logprobs", nullptr},
          {"finish_reason", nullptr}};
}

nlohmann::ordered_json ChatFormat::token_json(int id, double logprob) const {
  nlohmann::ordered_json bytes = nlohmann::ordered_json::array();
  for (const char byte : tokenizer_.token_bytes(id)) bytes.push_back(static_cast<unsigned char>(byte));
  return {{"token", token_text(tokenizer_, id)}, {"logprob", logprob}, {"bytes", std::move(bytes)}};
}

nlohmann::ordered_json ChatFormat::logprobs_json(const TextPart& part) const {
  nlohmann::ordered_json content = nlohmann::ordered_json::array();
  for (const GeneratedToken& token : part.tokens) {
    nlohmann::ordered_json entry = token_json(token.id, token.logprob);
    entry["top_logprobs"] = nlohmann::ordered_json::array();
    for (const TokenLogprob& top : token.top) entry["top_logprobs"].push_back(token_json(top.id, top.logprob));
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

}  // namespace ballast::serve
