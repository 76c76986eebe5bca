#include "serve/api/messages_format.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "files/text.h"
#include "serve/api/api_error.h"
#include "serve/api/constraint_fields.h"
#include "serve/api/field_table.h"
#include "serve/api/json_text.h"
#include "serve/api/message_text.h"

namespace ballast::serve {
namespace {

using Json = nlohmann::ordered_json;
using files::JsonReader;

void add_block_text(const std::string& text, std::string& to) {
  if (!to.empty() && !text.empty()) to += '\n';
  to += text;
}

/// Claude Code begins the system's text with a line for the bills of its maker's service, which differs from request to
/// request: with it, no prompt would begin like another, and the cache would be of no use.
std::string without_billing_line(std::string text) {
  if (!text.starts_with("x-anthropic-billing-header:")) return text;
  return text.substr(std::min(text.find('\n'), text.size() - 1) + 1);
}

/// Reads text, or a list of blocks of text. `read_other` returns the text of a block of another type, or fails.
template <class ReadOther>
std::string read_blocks(const JsonReader& value, const ReadOther& read_other) {
  if (value.json().is_string()) return value.string();
  std::string text;
  for (const JsonReader& block : value.elements()) {
    const std::string type = block.text("type");
    add_block_text(type == "text" ? block.text("text") : read_other(block, type), text);
  }
  return text;
}

/// Reads the text of the system.
std::string read_system_text(const JsonReader& value) {
  return without_billing_line(read_blocks(value, [](const JsonReader& block, const std::string& type) -> std::string {
    block.fail("type", files::concat(files::in_quotes(type), " is not supported: only \"text\" is"));
  }));
}

/// The messages of a request, in OpenAI's form.
struct ReadMessages {
  Json messages = Json::array();
  std::vector<std::string> found_tools{};  ///< deferred ones that a search for tools has found
};

/// Reads the result of a tool.
std::string read_tool_result(const JsonReader& value, ReadMessages& read) {
  return read_blocks(value, [&](const JsonReader& block, const std::string& type) {
    if (type != "tool_reference") {
      block.fail("type",
                 files::concat(files::in_quotes(type), " is not supported: \"text\" and \"tool_reference\" are"));
    }
    read.found_tools.push_back(block.text("tool_name"));
    return files::concat("The tool ", read.found_tools.back(), " can be called from now on.");
  });
}

/// Reads an assistant's message: its text, thinking and calls. `ordered` has the members in the client's order.
Json read_assistant(const JsonReader& message, const Json& ordered) {
  const JsonReader content = message.at("content");
  Json read = {{"role", "assistant"}};
  if (content.json().is_string()) {
    read["content"] = content.string();
    return read;
  }
  std::string text;
  std::string thinking;
  Json calls = Json::array();
  std::size_t index = 0;
  for (const JsonReader& block : content.elements()) {
    const Json& own = ordered.at("content").at(index++);
    const std::string type = block.text("type");
    if (type == "text") {
      add_block_text(block.text("text"), text);
    } else if (type == "thinking") {
      add_block_text(block.text("thinking"), thinking);
    } else if (type == "tool_use") {
      const JsonReader input = block.object("input");
      calls.push_back({{"id", block.text("id")},
                       {"type", "function"},
                       {"function", {{"name", block.text("name")}, {"arguments", own.at("input")}}}});
    } else if (type != "redacted_thinking") {
      block.fail("type", files::concat(files::in_quotes(type),
                                       " is not supported: \"text\", \"thinking\" and \"tool_use\" are"));
    }
  }
  read["content"] = std::move(text);
  if (!thinking.empty()) read["reasoning_content"] = std::move(thinking);
  if (!calls.empty()) read["tool_calls"] = std::move(calls);
  return read;
}

/// Adds a user's message. Results of tools in it become messages of their own, before its text.
void add_user(const JsonReader& message, ReadMessages& read) {
  const JsonReader content = message.at("content");
  if (content.json().is_string()) {
    read.messages.push_back({{"role", "user"}, {"content", content.string()}});
    return;
  }
  std::string text;
  bool has_text = false;
  for (const JsonReader& block : content.elements()) {
    const std::string type = block.text("type");
    if (type == "text") {
      add_block_text(block.text("text"), text);
      has_text = true;
    } else if (type == "tool_result") {
      const std::string result = block.has("content") ? read_tool_result(block.at("content"), read) : std::string();
      read.messages.push_back({{"role", "tool"}, {"tool_call_id", block.text("tool_use_id")}, {"content", result}});
    } else {
      block.fail("type", files::concat(files::in_quotes(type), " is not supported: \"text\" and \"tool_result\" are"));
    }
  }
  if (has_text || content.json().empty()) read.messages.push_back({{"role", "user"}, {"content", std::move(text)}});
}

ReadMessages read_turns(const RequestFields& fields) {
  ReadMessages read;
  fields.read("system", [&](const JsonReader& system) {
    read.messages.push_back({{"role", "system"}, {"content", read_system_text(system)}});
    return true;
  });
  const Json ordered = fields.ordered("messages");
  const auto read_list = [&](const JsonReader& list) {
    const std::vector<JsonReader> elements = list.elements();
    if (elements.empty()) list.fail("must not be empty");
    if (elements.size() > kMostMessages) list.fail(files::concat("at most ", kMostMessages, " are possible"));
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const std::string role = elements[i].text("role");
      if (role == "assistant") {
        read.messages.push_back(read_assistant(elements[i], ordered.at(i)));
      } else if (role == "user") {
        add_user(elements[i], read);
      } else if (role == "system") {
        read.messages.push_back({{"role", "system"}, {"content", read_system_text(elements[i].at("content"))}});
      } else {
        elements[i].fail("role",
                         files::concat(files::in_quotes(role), " is not supported: user, assistant and system are"));
      }
    }
    return true;
  };
  if (!fields.read("messages", read_list)) throw ApiError(400, "messages: are missing", "messages");
  return read;
}

void read_custom_tool(const JsonReader& tool, const Json& ordered, ToolFields& read) {
  const std::string type = tool.text("type", "custom");
  if (type != "custom") {
    tool.fail("type", files::concat(files::in_quotes(type), " is not supported: only \"custom\" is"));
  }
  Json function = {{"name", ordered.value("name", Json())}};
  if (ordered.contains("description")) function["description"] = ordered["description"];
  if (ordered.contains("input_schema")) function["parameters"] = ordered["input_schema"];
  if (ordered.contains("strict")) function["strict"] = ordered["strict"];
  add_tool(function, tool.context(), read);
}

/// Reads the tools, without deferred ones that are not among the found ones.
ToolFields read_custom_tools(const RequestFields& fields, std::span<const std::string> found_tools) {
  ToolFields read;
  const Json ordered = fields.ordered("tools");
  fields.read("tools", [&](const JsonReader& tools) {
    std::size_t index = 0;
    for (const JsonReader& tool : tools.elements()) {
      const Json& own = ordered.at(index++);
      if (tool.flag("defer_loading", false) && std::ranges::find(found_tools, tool.text("name")) == found_tools.end()) {
        continue;
      }
      read_custom_tool(tool, own, read);
    }
    return true;
  });
  fields.read("tool_choice", [&](const JsonReader& choice) {
    const std::string type = choice.text("type");
    if (type == "none") {
      read.choice.kind = text::ToolChoice::Kind::kNone;
    } else if (type == "any") {
      if (read.tools.is_null()) choice.fail("needs tools to choose from");
      read.choice.kind = text::ToolChoice::Kind::kRequired;
    } else if (type == "tool") {
      require_tool(choice.text("name"), choice.context(), read);
    } else if (type != "auto") {
      choice.fail("type", files::concat(files::in_quotes(type),
                                        " is not supported: \"auto\", \"any\", \"tool\" and \"none\" are"));
    }
    read.choice.parallel = !choice.flag("disable_parallel_tool_use", false);
    return true;
  });
  return read;
}

/// Passes the request's wish for thinking to the chat template.
void read_thinking_wish(const RequestFields& fields, ChatRequest& request) {
  fields.read("thinking", [&](const JsonReader& thinking) {
    const std::string type = thinking.text("type");
    if (type != "enabled" && type != "disabled" && type != "adaptive") {
      thinking.fail("type", files::concat(files::in_quotes(type),
                                          " is not supported: \"enabled\", \"adaptive\" and \"disabled\" are"));
    }
    if (type != "adaptive") request.conversation.arguments["enable_thinking"] = type == "enabled";
    if (type == "enabled" && thinking.has("budget_tokens")) {
      request.thinking_tokens =
          static_cast<std::size_t>(whole_number(thinking.at("budget_tokens"), 1, std::numeric_limits<int>::max()));
    }
    return true;
  });
}

/// Reads a schema for the answer, `output_config.format` or its older name `output_format`, and the effort, which is
/// for the chat template.
void read_output_config(const RequestFields& fields, ChatRequest& request) {
  const auto read = [&](const char* field, const JsonReader& format, const Json& ordered) {
    const std::string type = format.text("type");
    if (type != "json_schema") {
      format.fail("type", files::concat(files::in_quotes(type), " is not supported: \"json_schema\" is"));
    }
    format.object("schema");
    request.answer = {.constraint = schema_constraint(ordered.at("schema")), .field = field};
  };
  fields.read("output_format", [&](const JsonReader& format) {
    read("output_format", format, fields.ordered("output_format"));
    return true;
  });
  fields.read("output_config", [&](const JsonReader& config) {
    if (config.has("format"))
      read("output_config", config.object("format"), fields.ordered("output_config").at("format"));
    if (config.has("effort")) request.conversation.arguments["reasoning_effort"] = config.text("effort");
    return true;
  });
}

Json usage_json_of(std::size_t input, std::size_t cached, std::size_t output) {
  return {{"input_tokens", input - cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", cached},
          {"output_tokens", output}};
}

std::string message_event(std::string_view name, const Json& data) {
  Json typed = {{"type", name}};
  typed.update(data);
  return event_text(name, json_text(typed));
}

}  // namespace

ChatRequest read_messages_request(const RequestFields& fields, const ModelFacts& model, bool needs_limit) {
  constexpr std::array<std::string_view, 1> kLimits = {"max_tokens"};
  check_fields(fields, kMessages);
  ChatRequest request;
  ReadMessages read = read_turns(fields);
  request.tools = read_custom_tools(fields, read.found_tools);
  request.generation = read_generation(fields, model);
  request.limit = read_answer_limit(fields, kLimits);
  request.delivery.stream = fields.flag("stream", false);
  if (needs_limit && !request.limit.tokens) throw ApiError(400, "max_tokens: is missing", "max_tokens");
  request.generation.options.stop = read_stops(fields, "stop_sequences");
  request.generation.begin = text::StreamDecoder::Begin::kOfText;
  request.conversation.messages = std::move(read.messages);
  request.conversation.tools = offered_tools(request.tools);
  read_thinking_wish(fields, request);
  read_output_config(fields, request);
  return request;
}

/// Claude Code gives up on a stream without events, for which comments do not count.
std::string_view MessagesFormat::heartbeat() const {
  static const std::string ping = message_event("ping", Json::object());
  return ping;
}

std::string MessagesFormat::begin_stream(std::size_t /*choices*/) {
  Json message = message_json();
  message["usage"] = usage_json_of(prompt_tokens_, 0, 0);
  return message_event("message_start", {{"message", std::move(message)}}) + std::string(heartbeat());
}

std::string MessagesFormat::write_piece(const AnswerPiece& piece) {
  see(piece);
  std::string text;
  for (const ReplyPart& part : piece.parts) {
    const bool begins_call = part.kind == ReplyKind::kToolName;
    const ReplyKind block = item_kind(part.kind);
    if (begins_call || open_ != block) {
      text += close_block();
      text += open_block(part);
    }
    if (begins_call) continue;
    Json delta;
    if (part.kind == ReplyKind::kThinking) {
      delta = {{"type", "thinking_delta"}, {"thinking", part.text}};
    } else if (part.kind == ReplyKind::kToolArguments) {
      delta = {{"type", "input_json_delta"}, {"partial_json", part.text}};
    } else {
      delta = {{"type", "text_delta"}, {"text", part.text}};
    }
    text += message_event("content_block_delta", {{"index", blocks_}, {"delta", std::move(delta)}});
  }
  return text;
}

std::string MessagesFormat::open_block(const ReplyPart& part) {
  open_ = item_kind(part.kind);
  Json block;
  if (part.kind == ReplyKind::kThinking) {
    block = {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
  } else if (part.kind == ReplyKind::kToolName) {
    block = {{"type", "tool_use"}, {"id", random_id("toolu_")}, {"name", part.text}, {"input", Json::object()}};
  } else {
    block = {{"type", "text"}, {"text", ""}};
  }
  return message_event("content_block_start", {{"index", blocks_}, {"content_block", std::move(block)}});
}

std::string MessagesFormat::close_block() {
  if (!open_) return {};
  open_.reset();
  return message_event("content_block_stop", {{"index", blocks_++}});
}

std::string MessagesFormat::end_stream(const RequestUsage& usage) {
  const Json delta = {{"stop_reason", stop_reason_},
                      {"stop_sequence", stop_sequence_ ? Json(*stop_sequence_) : Json(nullptr)}};
  std::string text = close_block();
  text += message_event(
      "message_delta",
      {{"delta", delta}, {"usage", usage_json_of(usage.prompt_tokens, usage.cached_tokens, usage.generated_tokens)}});
  return text + message_event("message_stop", Json::object());
}

void MessagesFormat::add_choice(const AnswerPiece& choice, std::string& /*body*/) {
  see(choice);
  for (const ReplyPart& part : choice.parts) {
    switch (part.kind) {
      case ReplyKind::kThinking:
        content_.push_back({{"type", "thinking"}, {"thinking", part.text}, {"signature", ""}});
        break;
      case ReplyKind::kToolName:
        content_.push_back(
            {{"type", "tool_use"}, {"id", random_id("toolu_")}, {"name", part.text}, {"input", Json::object()}});
        break;
      case ReplyKind::kToolArguments:
        content_.back()["input"] = Json::parse(part.text);
        break;
      default:
        content_.push_back({{"type", "text"}, {"text", part.text}});
    }
  }
}

void MessagesFormat::end_body(const RequestUsage& usage, std::string& body) {
  Json message = message_json();
  message["content"] = std::move(content_);
  message["stop_reason"] = stop_reason_;
  if (stop_sequence_) message["stop_sequence"] = *stop_sequence_;
  message["usage"] = usage_json_of(usage.prompt_tokens, usage.cached_tokens, usage.generated_tokens);
  body = json_text(message);
}

Json MessagesFormat::message_json() const {
  return {{"id", id_},
          {"type", "message"},
          {"role", "assistant"},
          {"model", model_},
          {"content", Json::array()},
          {"stop_reason", nullptr},
          {"stop_sequence", nullptr}};
}

/// Notes why the message ends.
void MessagesFormat::see(const AnswerPiece& piece) {
  calls_.see(piece.parts);
  if (!piece.end) return;
  if (piece.end->finish != GenerateResult::Finish::kStop) {
    stop_reason_ = "max_tokens";
  } else if (!piece.end->stop_string.empty()) {
    stop_reason_ = "stop_sequence";
    stop_sequence_ = piece.end->stop_string;
  } else if (calls_.any()) {
    stop_reason_ = "tool_use";
  }
}

}  // namespace ballast::serve
