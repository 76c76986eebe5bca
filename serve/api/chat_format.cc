#include "serve/api/chat_format.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "files/text.h"
#include "serve/api/constraint_fields.h"
#include "serve/api/field_table.h"
#include "serve/api/message_text.h"

namespace ballast::serve {
namespace {

constexpr std::string_view kCallId = "call_";

/// Reads the tool calls of an earlier answer. `ordered` is the list with the members in the client's order. Arguments
/// may be text or an object: the template gets what it writes.
nlohmann::ordered_json read_tool_calls(const files::JsonReader& value, const nlohmann::ordered_json& ordered) {
  nlohmann::ordered_json calls = nlohmann::ordered_json::array();
  for (const files::JsonReader& call : value.elements()) {
    const files::JsonReader function = call.object("function");
    if (function.text("name").empty()) function.fail("name", "must not be empty");
    nlohmann::ordered_json& arguments = calls.emplace_back(ordered.at(calls.size()))["function"]["arguments"];
    if (arguments.is_null()) arguments = nlohmann::ordered_json::object();
  }
  return calls;
}

/// Returns the fields of a message other than role and text, for the chat template. An empty list of calls is left out,
/// because templates only test whether there is one. The older `function_call` is a call like others.
std::string read_other_fields(const files::JsonReader& message, const nlohmann::ordered_json& ordered) {
  nlohmann::ordered_json fields = nlohmann::ordered_json::object();
  for (const auto& [name, value] : ordered.items()) {
    const bool has_own_reader = name == "role" || name == "content" || name == "tool_calls" || name == "function_call";
    if (!has_own_reader && !value.is_null()) fields[name] = value;
  }
  if (const auto calls = message.find("tool_calls"); calls && !calls->elements().empty()) {
    fields["tool_calls"] = read_tool_calls(*calls, ordered.at("tool_calls"));
  } else if (const auto call = message.find("function_call")) {
    if (call->text("name").empty()) call->fail("name", "must not be empty");
    nlohmann::ordered_json function = ordered.at("function_call");
    if (function["arguments"].is_null()) function["arguments"] = nlohmann::ordered_json::object();
    fields["tool_calls"] = {{{"type", "function"}, {"function", std::move(function)}}};
  }
  if (message.text("role") == "assistant" && !fields.contains("reasoning_content")) {
    if (std::string thinking = read_message_thinking(message); !thinking.empty())
      fields["reasoning_content"] = thinking;
  }
  return fields.empty() ? std::string() : fields.dump();
}

ChatMessage read_message(const files::JsonReader& value, const nlohmann::ordered_json& ordered) {
  constexpr std::array kRoles = {"system", "developer", "user", "assistant", "tool", "function"};
  const std::string role = value.text("role");
  if (std::ranges::find(kRoles, role) == kRoles.end()) {
    value.fail("role",
               files::concat(files::in_quotes(role), " is not supported: system, user, assistant and tool are"));
  }
  for (const char* calls : {"tool_calls", "function_call"}) {
    if (role != "assistant" && value.has(calls)) value.fail(calls, "are an assistant's");
  }
  std::string name = role;
  if (role == "developer") name = "system";
  if (role == "function") name = "tool";
  return {.role = std::move(name),
          .content = read_message_text(value, role == "assistant"),
          .fields = read_other_fields(value, ordered)};
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
    }
    arguments = fields.ordered("chat_template_kwargs");
    return true;
  });
  fields.read("documents", [&](const files::JsonReader& documents) {
    if (!documents.json().is_array()) documents.fail("must be a list");
    arguments.emplace("documents", fields.ordered("documents"));
    return true;
  });
  if (const auto effort = fields.text("reasoning_effort")) {
    arguments.emplace("reasoning_effort", *effort);
    arguments.emplace("enable_thinking", *effort != "none");
  }
  return arguments;
}

std::vector<ChatMessage> read_messages(const RequestFields& fields) {
  const auto read = [&](const files::JsonReader& value) {
    std::vector<ChatMessage> messages;
    if (value.json().is_array() && value.json().size() > kMostMessages) {
      value.fail(files::concat("at most ", kMostMessages, " are possible"));
    }
    const nlohmann::ordered_json ordered = fields.ordered("messages");
    for (const files::JsonReader& message : value.elements()) {
      messages.push_back(read_message(message, ordered.at(messages.size())));
    }
    if (messages.empty()) value.fail("must not be empty");
    return messages;
  };
  std::optional<std::vector<ChatMessage>> messages = fields.read("messages", read);
  if (!messages) throw ApiError(400, "messages: are missing", "messages");
  return *std::move(messages);
}

/// Reads vLLM's and llama-server's names of a budget; -1 is none.
std::optional<std::size_t> read_thinking_budget(const RequestFields& fields) {
  for (const char* name : {"thinking_token_budget", "reasoning_budget_tokens", "thinking_budget_tokens"}) {
    const auto tokens = fields.integer(name, -1, std::numeric_limits<std::int32_t>::max());
    if (tokens && *tokens >= 0) return static_cast<std::size_t>(*tokens);
  }
  return std::nullopt;
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

/// Returns an entry for every token, also those of thinking and marks.
nlohmann::ordered_json logprobs_json(const text::Tokenizer& tokenizer, const AnswerPiece& piece) {
  return {{"content", token_logprobs_json(tokenizer, piece.tokens)}, {"refusal", nullptr}};
}

/// Writes the thinking under DeepSeek's name and under vLLM's.
void add_thinking(std::string_view thinking, nlohmann::ordered_json& message) {
  if (thinking.empty()) return;
  message["reasoning_content"] = thinking;
  message["reasoning"] = thinking;
}

}  // namespace

text::Conversation read_conversation(const RequestFields& fields) {
  return read_conversation(fields, read_tools(fields));
}

text::Conversation read_conversation(const RequestFields& fields, const ToolFields& tools) {
  text::Conversation conversation = text::make_conversation(read_messages(fields));
  conversation.arguments = read_arguments(fields);
  conversation.tools = offered_tools(tools);
  conversation.continue_final_message = fields.flag("continue_final_message", false);
  conversation.add_generation_prompt = fields.flag("add_generation_prompt", !conversation.continue_final_message);
  if (conversation.continue_final_message && conversation.add_generation_prompt) {
    throw ApiError(400, "continue_final_message: cannot be true together with add_generation_prompt",
                   "continue_final_message");
  }
  return conversation;
}

ChatRequest read_chat(const RequestFields& fields, const ModelFacts& model) {
  constexpr std::array<std::string_view, 3> kLimits = {"max_completion_tokens", "max_tokens", "n_predict"};
  check_fields(fields, kChats);
  ChatRequest request;
  request.tools = read_tools(fields);
  request.conversation = read_conversation(fields, request.tools);
  request.generation = read_generation(fields, model);
  request.prompt_options = read_prompt_options(fields, {.add_special_tokens = false});
  request.limit = read_answer_limit(fields, kLimits);
  request.delivery = read_delivery(fields);
  const std::optional<std::int64_t> top = fields.integer("top_logprobs", 0, kMostTopLogprobs);
  if (fields.flag("logprobs", false)) {
    request.generation.options.logprobs = static_cast<std::size_t>(top.value_or(0));
  } else if (top.value_or(0) > 0) {
    throw ApiError(400, "top_logprobs: need logprobs to be true", "top_logprobs");
  }
  request.answer = read_constraint(fields);
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
  request.thinking_tokens = read_thinking_budget(fields);
  return request;
}

nlohmann::ordered_json ChatFormat::choice_json(const AnswerPiece& choice) {
  nlohmann::ordered_json message = {
      {"role", "assistant"}, {"content", joined_text(choice.parts, ReplyKind::kAnswer)}, {"refusal", nullptr}};
  add_thinking(joined_text(choice.parts, ReplyKind::kThinking), message);
  const std::vector<ToolCall> calls = tool_calls(choice.parts);
  if (!calls.empty() && message["content"].get_ref<const std::string&>().empty()) message["content"] = nullptr;
  for (const ToolCall& call : calls) {
    const nlohmann::ordered_json function = {{"name", call.name}, {"arguments", call.arguments}};
    if (older_names_) {
      message["function_call"] = function;
      break;
    }
    message["tool_calls"].push_back({{"id", random_id(kCallId)}, {"type", "function"}, {"function", function}});
  }
  nlohmann::ordered_json json = {{"index", choice.choice}, {"message", std::move(message)}};
  json["logprobs"] = logprobs() ? logprobs_json(tokenizer(), choice) : nullptr;
  json["finish_reason"] = chat_finish_reason(choice);
  return json;
}

nlohmann::ordered_json ChatFormat::piece_json(const AnswerPiece& piece) {
  nlohmann::ordered_json delta = nlohmann::ordered_json::object();
  add_thinking(joined_text(piece.parts, ReplyKind::kThinking), delta);
  std::string text = joined_text(piece.parts, ReplyKind::kAnswer);
  if (!text.empty() || (!piece.end && piece.parts.empty())) delta["content"] = std::move(text);
  for (const ReplyPart& part : piece.parts) add_call_piece(part, delta);
  nlohmann::ordered_json json = {{"index", piece.choice}, {"delta", std::move(delta)}};
  json["logprobs"] = logprobs() && !piece.tokens.empty() ? logprobs_json(tokenizer(), piece) : nullptr;
  json["finish_reason"] = chat_finish_reason(piece);
  return json;
}

/// A call begins with its id and name; the text of its arguments follows in pieces. A delta has one entry for each
/// call: OpenAI's client loses text otherwise.
void ChatFormat::add_call_piece(const ReplyPart& part, nlohmann::ordered_json& delta) const {
  const bool begins = part.kind == ReplyKind::kToolName;
  if (!begins && part.kind != ReplyKind::kToolArguments) return;
  nlohmann::ordered_json function = nlohmann::ordered_json::object();
  if (begins) function["name"] = part.text;
  function["arguments"] = begins ? std::string() : part.text;
  if (older_names_ && part.call > 0) return;
  nlohmann::ordered_json& calls = delta[older_names_ ? "function_call" : "tool_calls"];
  const bool continues = !begins && !calls.is_null() && (older_names_ || calls.back()["index"] == part.call);
  if (continues) {
    nlohmann::ordered_json& own = older_names_ ? calls : calls.back()["function"];
    own["arguments"].get_ref<std::string&>() += part.text;
  } else if (older_names_) {
    calls = std::move(function);
  } else {
    nlohmann::ordered_json call = {{"index", part.call}};
    if (begins) call.update({{"id", random_id(kCallId)}, {"type", "function"}});
    call["function"] = std::move(function);
    calls.push_back(std::move(call));
  }
}

nlohmann::ordered_json ChatFormat::chat_finish_reason(const AnswerPiece& piece) {
  calls_.resize(std::max(calls_.size(), piece.choice + 1));
  for (const ReplyPart& part : piece.parts) {
    if (!older_names_ || part.call == 0) calls_[piece.choice].see(std::span(&part, 1));  // function_call is the first
  }
  if (!piece.end || piece.end->finish != GenerateResult::Finish::kStop || !calls_[piece.choice].any()) {
    return finish_reason(piece.end);
  }
  return older_names_ ? "function_call" : "tool_calls";
}

nlohmann::ordered_json ChatFormat::first_piece(std::size_t choice) const {
  return {{"index", choice},
          {"delta", {{"role", "assistant"}, {"content", ""}}},
          {"logprobs", nullptr},
          {"finish_reason", nullptr}};
}

}  // namespace ballast::serve
