#include "serve/api/responses_format.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <numeric>
#include <utility>
#include <vector>

#include "files/text.h"
#include "serve/api/api_error.h"
#include "serve/api/constraint_fields.h"
#include "serve/api/field_table.h"
#include "serve/api/json_text.h"
#include "serve/api/message_text.h"
#include "serve/api/openai_format.h"

namespace ballast::serve {
namespace {

using Json = nlohmann::ordered_json;
using files::JsonReader;

constexpr std::size_t kMostItems = 4096;

/// Builds the messages of a conversation from items. An assistant's items that follow each other, its thinking, text
/// and calls, are one message: many templates want the results of calls right after them.
class MessageBuilder {
 public:
  void add(const JsonReader& item) {
    const std::string type = item.text("type", "message");
    if (type == "message") {
      add_message(item);
    } else if (type == "function_call") {
      add_call(item, read_call_arguments(item.text("arguments")));
    } else if (type == "custom_tool_call") {
      add_call(item, custom_tool_arguments(item.text("input")));
    } else if (type == "function_call_output" || type == "custom_tool_call_output") {
      add_result(item);
    } else if (type == "reasoning") {
      add_thinking(item);
    } else if (!was_run_elsewhere(type)) {
      item.fail("type", files::concat(files::in_quotes(type),
                                      " is not supported: \"message\", \"reasoning\", \"function_call\", "
                                      "\"custom_tool_call\" and the outputs of calls are"));
    }
  }

  Json take() { return std::move(messages_); }

 private:
  void add_message(const JsonReader& item) {
    const std::string role = item.text("role");
    const std::string text = read_message_text(item, role == "assistant");
    if (role == "assistant") {
      auto& content = assistant()["content"].get_ref<std::string&>();
      if (!content.empty()) content += '\n';
      content += text;
    } else if (role == "user" || role == "system" || role == "developer") {
      messages_.push_back({{"role", role == "developer" ? "system" : role}, {"content", text}});
    } else {
      item.fail("role",
                files::concat(files::in_quotes(role), " is not supported: user, assistant, system and developer are"));
    }
  }

  /// Returns whether an item is a call that another server has run; what came of it is in the text.
  static bool was_run_elsewhere(std::string_view type) {
    constexpr std::array<std::string_view, 4> kTypes = {"web_search_call", "file_search_call", "code_interpreter_call",
                                                        "image_generation_call"};
    return std::ranges::find(kTypes, type) != kTypes.end();
  }

  void add_call(const JsonReader& item, Json arguments) {
    if (item.text("name").empty()) item.fail("name", "must not be empty");
    Json function = {{"name", function_name(item.text("namespace", ""), item.text("name"))},
                     {"arguments", std::move(arguments)}};
    assistant()["tool_calls"].push_back(
        {{"id", item.text("call_id")}, {"type", "function"}, {"function", std::move(function)}});
  }

  void add_result(const JsonReader& item) {
    const JsonReader output = item.at("output");
    std::string text = output.json().is_string() ? output.string() : read_parts_text(output);
    messages_.push_back({{"role", "tool"}, {"tool_call_id", item.text("call_id")}, {"content", std::move(text)}});
  }

  void add_thinking(const JsonReader& item) {
    if (!item.has("content")) return;
    const std::string text = read_parts_text(item.at("content"));
    if (!text.empty()) assistant()["reasoning_content"] = text;
  }

  static Json empty_assistant() { return {{"role", "assistant"}, {"content", ""}}; }

  /// Returns the message of the assistant's turn at the end of the conversation.
  Json& assistant() {
    if (messages_.empty() || messages_.back()["role"] != "assistant") messages_.push_back(empty_assistant());
    return messages_.back();
  }

  Json messages_ = Json::array();
};

Json read_input(const RequestFields& fields) {
  Json messages = Json::array();
  const auto read = [&](const JsonReader& input) {
    if (input.json().is_string()) {
      messages.push_back({{"role", "user"}, {"content", input.string()}});
      return true;
    }
    const std::vector<JsonReader> items = input.elements();
    if (items.size() > kMostItems) input.fail(files::concat("at most ", kMostItems, " are possible"));
    MessageBuilder builder;
    for (const JsonReader& item : items) builder.add(item);
    messages = builder.take();
    return true;
  };
  if (!fields.read("input", read)) throw ApiError(400, "input: is missing", "input");
  return messages;
}

/// Reads `text.format`.
void read_text_format(const RequestFields& fields, ChatRequest& request) {
  fields.read("text", [&](const JsonReader& text) {
    if (!text.has("format")) return true;
    const JsonReader format = text.object("format");
    const std::string type = format.text("type");
    if (type == "json_object") {
      request.answer = {.constraint = {.kind = Constraint::Kind::kJsonObject}, .field = "text"};
    } else if (type == "json_schema") {
      format.object("schema");
      request.answer = {.constraint = schema_constraint(fields.ordered("text").at("format").at("schema")),
                        .field = "text"};
    } else if (type != "text") {
      format.fail("type", files::concat(files::in_quotes(type),
                                        " is not supported: \"text\", \"json_object\" and \"json_schema\" are"));
    }
    return true;
  });
}

void read_reasoning(const RequestFields& fields, ChatRequest& request) {
  fields.read("reasoning", [&](const JsonReader& reasoning) {
    if (!reasoning.has("effort")) return true;
    const std::string effort = reasoning.text("effort");
    request.conversation.arguments["reasoning_effort"] = effort;
    request.conversation.arguments["enable_thinking"] = effort != "none";
    return true;
  });
}

/// Reads what a response includes: log-probabilities, and how many of the most likely tokens for each. What else a
/// client may name is of tools that the server does not run, or is the encrypted thinking, which is in the response
/// anyway and needs no encryption to be sent back.
std::optional<std::size_t> read_included_logprobs(const RequestFields& fields) {
  constexpr std::string_view kLogprobs = "message.output_text.logprobs";
  const auto read = [&](const JsonReader& include) {
    const std::vector<std::string> names = include.strings();
    return std::ranges::find(names, kLogprobs) != names.end();
  };
  const bool has_logprobs = fields.read("include", read).value_or(false);
  const std::int64_t top = fields.integer("top_logprobs", 0, kMostTopLogprobs).value_or(0);
  if (has_logprobs) return static_cast<std::size_t>(top);
  if (top > 0) {
    throw ApiError(400, files::concat("top_logprobs: need include to have ", files::in_quotes(kLogprobs)),
                   "top_logprobs");
  }
  return std::nullopt;
}

/// Returns the response before its answer, which repeats the request's options as OpenAI's does.
Json head_json(const RequestFields& fields, const ChatRequest& request, Json tools, const std::string& model,
               bool is_stored) {
  const GenerateOptions& options = request.generation.options;
  const auto own = [&](std::string_view field, Json fallback) {
    return fields.has(field) ? fields.ordered(field) : std::move(fallback);
  };
  return {{"id", random_id("resp_")},
          {"object", "response"},
          {"created_at", std::time(nullptr)},
          {"status", "in_progress"},
          {"background", false},
          {"error", nullptr},
          {"incomplete_details", nullptr},
          {"instructions", own("instructions", nullptr)},
          {"max_output_tokens", own("max_output_tokens", nullptr)},
          {"model", model},
          {"output", Json::array()},
          {"parallel_tool_calls", request.tools.choice.parallel},
          {"previous_response_id", own("previous_response_id", nullptr)},
          {"reasoning", own("reasoning", {{"effort", nullptr}, {"summary", nullptr}})},
          {"store", is_stored},
          {"temperature", options.temperature},
          {"text", own("text", {{"format", {{"type", "text"}}}})},
          {"tool_choice", own("tool_choice", "auto")},
          {"tools", std::move(tools)},
          {"top_logprobs", options.logprobs.value_or(0)},
          {"top_p", options.top_p},
          {"truncation", "disabled"},
          {"usage", nullptr},
          {"user", own("user", nullptr)},
          {"metadata", own("metadata", Json::object())}};
}

void append(const Json& entries, Json& list) {
  for (const Json& entry : entries) list.push_back(entry);
}

}  // namespace

ResponsesRequest read_responses_request(const RequestFields& fields, const ModelFacts& model,
                                        const std::string& model_name, const Json& earlier) {
  constexpr std::array<std::string_view, 1> kLimits = {"max_output_tokens"};
  check_fields(fields, kResponses);
  if (fields.has("prompt")) throw ApiError(400, "prompt: is not supported: send input", "prompt");
  ResponsesRequest request;
  ResponseTools tools = read_response_tools(fields);
  request.chat.tools = std::move(tools.fields);
  request.tools = std::move(tools.by_function);
  request.chat.generation = read_generation(fields, model);
  request.chat.generation.options.logprobs = read_included_logprobs(fields);
  request.chat.limit = read_answer_limit(fields, kLimits);
  request.chat.delivery.stream = fields.flag("stream", false);
  request.chat.repeats_answer = true;
  request.messages = earlier;
  request.is_stored = fields.flag("store", true);
  for (Json& message : read_input(fields)) request.messages.push_back(std::move(message));
  if (request.messages.empty()) throw ApiError(400, "input: must not be empty", "input");
  text::Conversation& conversation = request.chat.conversation;
  if (const auto instructions = fields.text("instructions")) {
    conversation.messages.push_back({{"role", "system"}, {"content", *instructions}});
  }
  conversation.messages.insert(conversation.messages.end(), request.messages.begin(), request.messages.end());
  conversation.tools = offered_tools(request.chat.tools);
  request.chat.generation.begin = text::StreamDecoder::Begin::kOfText;
  read_text_format(fields, request.chat);
  read_reasoning(fields, request.chat);
  request.head = head_json(fields, request.chat, std::move(tools.listed), model_name, request.is_stored);
  return request;
}

ResponsesFormat::ResponsesFormat(Json head, ResponseToolMap tools, OnDone on_done, const text::Tokenizer* tokenizer)
    : response_(std::move(head)),
      tools_(std::move(tools)),
      on_done_(std::move(on_done)),
      tokenizer_(tokenizer),
      message_({{"role", "assistant"}, {"content", ""}}) {}

std::string ResponsesFormat::event(std::string_view name, const Json& data) {
  Json numbered = {{"type", name}};
  numbered.update(data);
  numbered["sequence_number"] = events_++;
  return event_text(name, json_text(numbered));
}

std::string ResponsesFormat::begin_stream(std::size_t /*choices*/) {
  std::string text = event("response.created", {{"response", response_}});
  text += event("response.in_progress", {{"response", response_}});
  return text;
}

std::string ResponsesFormat::write_piece(const AnswerPiece& piece) {
  std::string text;
  std::span<const GeneratedToken> tokens = piece.tokens;
  const auto take = [&](std::size_t count) {
    const std::span<const GeneratedToken> taken = tokens.first(std::min(count, tokens.size()));
    tokens = tokens.subspan(taken.size());
    return logprobs_json(taken);
  };
  const std::size_t of_parts = std::reduce(piece.part_tokens.begin(), piece.part_tokens.end());
  // Tokens before the first part belong to the open item: marks after it, or text of it that was held back.
  Json held_back = take(tokens.size() - std::min(of_parts, tokens.size()));
  for (std::size_t i = 0; i < piece.parts.size(); ++i) {
    const ReplyPart& part = piece.parts[i];
    const bool begins_call = part.kind == ReplyKind::kToolName;
    const ReplyKind item = item_kind(part.kind);
    if (part.kind == ReplyKind::kBrokenCall) text += drop_call();
    if (begins_call || kind_ != item) {
      if (kind_) append(std::exchange(held_back, Json::array()), logprobs_);
      text += close_item(true);
      text += open_item(part);
    }
    Json logprobs = std::exchange(held_back, Json::array());
    append(take(i < piece.part_tokens.size() ? piece.part_tokens[i] : 0), logprobs);
    append(logprobs, logprobs_);
    if (begins_call) continue;
    text_ += part.text;
    Json delta = {{"item_id", item_["id"]}, {"output_index", items_}};
    if (item == ReplyKind::kToolName) {
      if (takes_text_) continue;  // the text is known when the JSON around it is whole
      delta["delta"] = part.text;
      text += event("response.function_call_arguments.delta", delta);
      continue;
    }
    delta.update({{"content_index", 0}, {"delta", part.text}});
    if (item == ReplyKind::kThinking) {
      text += event("response.reasoning_text.delta", delta);
    } else {
      delta["logprobs"] = std::move(logprobs);
      text += event("response.output_text.delta", delta);
    }
  }
  append(held_back, logprobs_);
  if (piece.end) ends_early_ = piece.end->finish != GenerateResult::Finish::kStop;
  return text;
}

/// Returns nothing for thinking and calls, and if none are requested.
Json ResponsesFormat::logprobs_json(std::span<const GeneratedToken> tokens) const {
  return tokenizer_ == nullptr ? Json::array() : token_logprobs_json(*tokenizer_, tokens);
}

/// Ends the open call, which turned out to be none: it is in no response and no conversation.
std::string ResponsesFormat::drop_call() {
  if (kind_ != ReplyKind::kToolName) return {};
  item_["status"] = "incomplete";
  item_[takes_text_ ? "input" : "arguments"] = text_;
  kind_.reset();
  return event("response.output_item.done", {{"output_index", items_++}, {"item", std::exchange(item_, nullptr)}});
}

/// Returns the item of a call that begins.
Json ResponsesFormat::call_item(const std::string& function) {
  const auto found = tools_.find(function);
  const ResponseTool tool = found != tools_.end() ? found->second : ResponseTool{.name = function};
  function_ = function;
  takes_text_ = tool.takes_text;
  Json item = {{"id", random_id(takes_text_ ? "ctc_" : "fc_")},
               {"type", takes_text_ ? "custom_tool_call" : "function_call"},
               {"status", "in_progress"},
               {takes_text_ ? "input" : "arguments", ""},
               {"call_id", random_id("call_")},
               {"name", tool.name}};
  if (!tool.name_space.empty()) item["namespace"] = tool.name_space;
  return item;
}

std::string ResponsesFormat::open_item(const ReplyPart& part) {
  kind_ = item_kind(part.kind);
  text_.clear();
  logprobs_ = Json::array();
  const std::size_t index = items_;
  Json content;
  if (part.kind == ReplyKind::kToolName) {
    item_ = call_item(part.text);
  } else if (part.kind == ReplyKind::kThinking) {
    item_ = {{"id", random_id("rs_")},
             {"type", "reasoning"},
             {"status", "in_progress"},
             {"summary", Json::array()},
             {"content", Json::array()}};
    content = {{"type", "reasoning_text"}, {"text", ""}};
  } else {
    item_ = {{"id", random_id("msg_")},
             {"type", "message"},
             {"status", "in_progress"},
             {"role", "assistant"},
             {"content", Json::array()}};
    content = {{"type", "output_text"}, {"text", ""}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
  }
  std::string text = event("response.output_item.added", {{"output_index", index}, {"item", item_}});
  if (content.is_null()) return text;
  return text +
         event("response.content_part.added",
               {{"item_id", item_["id"]}, {"output_index", index}, {"content_index", 0}, {"part", std::move(content)}});
}

/// Adds the arguments of a call, or a custom tool's text, to its item.
std::string ResponsesFormat::end_call(const Json& where) {
  Json done = where;
  if (!takes_text_) {
    item_["arguments"] = text_;
    done.update({{"name", item_["name"]}, {"arguments", text_}});
    return event("response.function_call_arguments.done", done);
  }
  const std::string input = custom_tool_text(text_);
  item_["input"] = input;
  done["delta"] = input;
  std::string text = event("response.custom_tool_call_input.delta", done);
  done.erase("delta");
  done["input"] = input;
  return text + event("response.custom_tool_call_input.done", done);
}

/// Adds the open item to the response, and its text to the message.
std::string ResponsesFormat::close_item(bool complete) {
  if (!kind_) return {};
  const std::size_t index = items_++;
  const Json where = {{"item_id", item_["id"]}, {"output_index", index}};
  std::string text;
  item_["status"] = complete ? "completed" : "incomplete";
  if (*kind_ == ReplyKind::kToolName) {
    message_["tool_calls"].push_back({{"id", item_["call_id"]},
                                      {"type", "function"},
                                      {"function", {{"name", function_}, {"arguments", read_call_arguments(text_)}}}});
    text = end_call(where);
  } else {
    const bool thinks = *kind_ == ReplyKind::kThinking;
    Json part = {{"type", thinks ? "reasoning_text" : "output_text"}, {"text", text_}};
    if (!thinks) part.update({{"annotations", Json::array()}, {"logprobs", logprobs_}});
    item_["content"].push_back(part);
    const char* name = thinks ? "reasoning_content" : "content";
    message_[name] = message_.value(name, "") + text_;
    Json done = where;
    done.update({{"content_index", 0}, {"text", text_}});
    if (!thinks) done["logprobs"] = logprobs_;
    text = event(thinks ? "response.reasoning_text.done" : "response.output_text.done", done);
    Json part_done = where;
    part_done.update({{"content_index", 0}, {"part", std::move(part)}});
    text += event("response.content_part.done", part_done);
  }
  text += event("response.output_item.done", {{"output_index", index}, {"item", item_}});
  response_["output"].push_back(std::move(item_));
  kind_.reset();
  return text;
}

std::string ResponsesFormat::end_stream(const RequestUsage& usage) {
  std::string text = close_item(!ends_early_);
  const Json response = finished(usage);
  return text + event(ends_early_ ? "response.incomplete" : "response.completed", {{"response", response}});
}

/// A body has the items that a stream would have sent.
void ResponsesFormat::add_choice(const AnswerPiece& choice, std::string& /*body*/) {
  write_piece(choice);
  close_item(!ends_early_);
}

void ResponsesFormat::end_body(const RequestUsage& usage, std::string& body) {
  body = json_text(finished(usage));
}

Json ResponsesFormat::finished(const RequestUsage& usage) {
  response_["status"] = ends_early_ ? "incomplete" : "completed";
  if (ends_early_) response_["incomplete_details"] = {{"reason", "max_output_tokens"}};
  response_["usage"] = {{"input_tokens", usage.prompt_tokens},
                        {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
                        {"output_tokens", usage.generated_tokens},
                        {"output_tokens_details", {{"reasoning_tokens", usage.thinking_tokens}}},
                        {"total_tokens", usage.prompt_tokens + usage.generated_tokens}};
  on_done_(response_, message_);
  return response_;
}

}  // namespace ballast::serve
