#include "serve/api/chat_format.h"

#include <algorithm>
#include <array>
#include <utility>

#include "files/text.h"

namespace ballast::serve {
namespace {

constexpr std::size_t kMostMessages = 4096;

/// Text, or a list of parts that all are text.
std::string read_content(const files::JsonReader& message) {
  const files::JsonReader content = message.at("content");
  if (content.json().is_string()) return content.string();
  std::string text;
  for (const files::JsonReader& part : content.elements()) {
    const std::string type = part.text("type");
    if (type != "text")
      part.fail(files::concat("type ", files::in_quotes(type), " is not supported: only \"text\" is"));
    text += part.text("text");
  }
  return text;
}

ChatMessage read_message(const files::JsonReader& value) {
  constexpr std::array kRoles = {"system", "developer", "user", "assistant"};
  const std::string role = value.text("role");
  if (std::ranges::find(kRoles, role) == kRoles.end()) {
    value.fail("role", files::concat(files::in_quotes(role), " is not supported: system, user and assistant are"));
  }
  if (value.has("tool_calls") && !value.json().at("tool_calls").empty()) value.fail("tool_calls", "are not supported");
  return {.role = role == "developer" ? "system" : role, .content = read_content(value)};
}

nlohmann::ordered_json read_arguments(const RequestFields& fields) {
  nlohmann::ordered_json arguments = nlohmann::ordered_json::object();
  fields.read("chat_template_kwargs", [&](const files::JsonReader& options) {
    for (const auto& [name, value] : options.members()) {
      if (name == "messages" || name == "tools") value.fail("cannot be replaced");
      arguments[std::string(name)] = nlohmann::ordered_json::parse(value.json().dump());
    }
    return true;
  });
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

}  // namespace

text::Conversation read_conversation(const RequestFields& fields) {
  text::Conversation conversation = text::make_conversation(read_messages(fields));
  conversation.arguments = read_arguments(fields);
  return conversation;
}

ChatRequest read_chat(const RequestFields& fields, std::size_t vocab_size) {
  ChatRequest request = {
      .conversation = read_conversation(fields),
      .generation = read_generation(fields, vocab_size),
      .most_tokens_field = fields.has("max_completion_tokens") ? "max_completion_tokens" : "max_tokens",
      .delivery = read_delivery(fields)};
  const std::optional<std::int64_t> top = fields.integer("top_logprobs", 0, kMostTopLogprobs);
  if (fields.flag("logprobs", false)) {
    request.generation.options.logprobs = static_cast<std::size_t>(top.value_or(0));
  } else if (top) {
    throw ApiError(400, "top_logprobs: need logprobs to be true", "top_logprobs");
  }
  request.generation.begin = text::StreamDecoder::Begin::kOfText;
  return request;
}

nlohmann::ordered_json ChatFormat::choice(const TextPart& part) const {
  nlohmann::ordered_json choice = {{"index", part.choice},
                                   {"message", {{"role", "assistant"}, {"content", part.text}, {"refusal", nullptr}}}};
  choice["logprobs"] = logprobs_ ? logprobs_json(part) : nullptr;
  choice["finish_reason"] = finish_reason(part.finish);
  return choice;
}

nlohmann::ordered_json ChatFormat::piece(const TextPart& part) const {
  nlohmann::ordered_json delta = nlohmann::ordered_json::object();
  if (!part.text.empty() || !part.finish) delta["content"] = part.text;
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
