#include "serve/api/ollama_format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <iomanip>
#include <iterator>
#include <limits>
#include <sstream>
#include <system_error>
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

/// Returns a time in the form "2026-01-31T12:00:00.123456789Z".
std::string time_text(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  const auto rest = time - std::chrono::system_clock::from_time_t(seconds);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::ostringstream text;
  text << std::put_time(&utc, "%FT%T.") << std::setfill('0') << std::setw(9)
       << std::chrono::duration_cast<std::chrono::nanoseconds>(rest).count() << 'Z';
  return std::move(text).str();
}

std::string now_text() {
  return time_text(std::chrono::system_clock::now());
}

std::string with_digits(double number, int digits) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(digits) << number;
  return std::move(text).str();
}

void refuse_images(const JsonReader& value) {
  if (value.has("images") && !value.at("images").json().empty()) value.fail("images", "are not supported");
}

/// Reads the calls of an earlier answer, whose arguments are an object.
Json read_ollama_calls(const JsonReader& calls, const Json& ordered) {
  Json read = Json::array();
  for (const JsonReader& call : calls.elements()) {
    const JsonReader function = call.object("function");
    if (function.text("name").empty()) function.fail("name", "must not be empty");
    Json arguments = ordered.at(read.size()).at("function").value("arguments", Json::object());
    if (arguments.is_string()) arguments = read_call_arguments(arguments.get<std::string>());
    read.push_back(
        {{"type", "function"}, {"function", {{"name", function.text("name")}, {"arguments", std::move(arguments)}}}});
  }
  return read;
}

Json read_ollama_message(const JsonReader& message, const Json& ordered) {
  const std::string role = message.text("role");
  if (role != "system" && role != "user" && role != "assistant" && role != "tool") {
    message.fail("role",
                 files::concat(files::in_quotes(role), " is not supported: system, user, assistant and tool are"));
  }
  refuse_images(message);
  Json read = {{"role", role}, {"content", message.text("content", "")}};
  if (message.has("thinking")) read["reasoning_content"] = message.text("thinking");
  if (message.has("tool_name")) read["name"] = message.text("tool_name");
  if (const auto calls = message.find("tool_calls"); calls && !calls->elements().empty()) {
    if (role != "assistant") message.fail("tool_calls", "are an assistant's");
    read["tool_calls"] = read_ollama_calls(*calls, ordered.at("tool_calls"));
  }
  return read;
}

/// Reads `format`: "json", or a schema.
Constraint read_format(const RequestFields& fields) {
  const auto read = [&](const JsonReader& format) -> Constraint {
    if (format.json().is_object()) return schema_constraint(fields.ordered("format"));
    if (format.string().empty()) return {};
    if (format.string() != "json") format.fail("must be \"json\" or a JSON schema");
    return {.kind = Constraint::Kind::kJsonObject};
  };
  return fields.read("format", read).value_or(Constraint{});
}

/// Reads `think`: whether the model thinks, or how much.
void read_think(const RequestFields& fields, ChatRequest& request) {
  fields.read("think", [&](const JsonReader& think) {
    Json& arguments = request.conversation.arguments;
    if (think.json().is_string()) {
      arguments["reasoning_effort"] = think.string();
      arguments["enable_thinking"] = true;
    } else {
      arguments["enable_thinking"] = think.boolean();
    }
    return true;
  });
}

/// Reads what both endpoints have: options, format, think and stream.
ChatRequest read_shared(const RequestFields& fields, const ModelFacts& model) {
  constexpr std::array<std::string_view, 1> kLimits = {"num_predict"};
  ChatRequest request;
  const auto read = [&](const JsonReader& object) {
    const RequestFields options(object);
    check_fields(options, kChats);
    request.generation = read_generation(options, model);
    request.limit = read_answer_limit(options, kLimits);
    return true;
  };
  if (!fields.read("options", read)) {
    const RequestFields none(std::string_view("{}"));
    request.generation = read_generation(none, model);
    request.limit = {.field = kLimits.front()};
  }
  request.generation.begin = text::StreamDecoder::Begin::kOfText;
  request.answer = {.constraint = read_format(fields), .field = "format"};
  request.delivery.stream = fields.flag("stream", true);
  read_think(fields, request);
  return request;
}

std::int64_t nanoseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

/// Reads a duration as Go writes it: "300ms", "-1.5h", "2h45m", "0".
double duration_seconds(const JsonReader& value) {
  constexpr std::array<std::pair<std::string_view, double>, 7> kUnits = {
      {{"ns", 1e-9}, {"us", 1e-6}, {"µs", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}}};
  std::string_view left = value.string();
  const bool is_negative = left.starts_with('-');
  if (is_negative || left.starts_with('+')) left.remove_prefix(1);
  if (left == "0") return 0;
  double seconds = left.empty() ? std::numeric_limits<double>::quiet_NaN() : 0;
  while (!left.empty() && !std::isnan(seconds)) {
    const std::string_view digits = left.substr(0, left.find_first_not_of("0123456789."));
    left.remove_prefix(digits.size());
    const std::string_view unit = left.substr(0, left.find_first_of("0123456789."));
    left.remove_prefix(unit.size());
    double number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    const auto known = std::ranges::find(kUnits, unit, &std::pair<std::string_view, double>::first);
    const bool is_valid = error == std::errc() && end == digits.data() + digits.size() && known != kUnits.end();
    seconds = is_valid ? seconds + number * known->second : std::numeric_limits<double>::quiet_NaN();
  }
  if (std::isnan(seconds)) value.fail("must be seconds, or a duration such as \"5m\" or \"1h30m\"");
  return is_negative ? -seconds : seconds;
}

Json details_json(const Json& about) {
  const std::string family = about.value("architecture", "");
  const auto parameters = about.value("parameters", std::uint64_t{0});
  return {{"parent_model", ""},
          {"format", "ballast"},
          {"family", family},
          {"families", {family}},
          {"parameter_size", with_digits(static_cast<double>(parameters) / 1e6, 1) + "M"},
          {"quantization_level", with_digits(about.value("bits", 0.0), 2) + " bits"}};
}

}  // namespace

std::optional<ChatRequest> read_ollama_chat(const RequestFields& fields, const ModelFacts& model) {
  ChatRequest request = read_shared(fields, model);
  request.tools = read_tools(fields);
  request.conversation.tools = offered_tools(request.tools);
  const Json ordered = fields.ordered("messages");
  fields.read("messages", [&](const JsonReader& messages) {
    const std::vector<JsonReader> elements = messages.elements();
    if (elements.size() > kMostMessages) messages.fail(files::concat("at most ", kMostMessages, " are possible"));
    for (std::size_t i = 0; i < elements.size(); ++i) {
      request.conversation.messages.push_back(read_ollama_message(elements[i], ordered.at(i)));
    }
    return true;
  });
  if (request.conversation.messages.empty()) return std::nullopt;
  return request;
}

std::optional<OllamaGenerateRequest> read_ollama_generate(const RequestFields& fields, const ModelFacts& model) {
  const std::string prompt = fields.text("prompt").value_or("");
  for (const char* field : {"images", "context"}) {
    fields.read(field, [](const JsonReader& value) {
      if (!value.json().empty()) value.fail("is not supported");
      return true;
    });
  }
  if (!fields.text("template").value_or("").empty()) {
    throw ApiError(400, "template: is not supported: start the server with --chat-template", "template");
  }
  OllamaGenerateRequest request = {.chat = read_shared(fields, model)};
  if (const std::string suffix = fields.text("suffix").value_or(""); !suffix.empty()) {
    request.suffix = suffix;
    request.raw = prompt;
    return request;
  }
  if (prompt.empty()) return std::nullopt;
  if (fields.flag("raw", false)) {
    request.raw = prompt;
    return request;
  }
  Json& messages = request.chat.conversation.messages;
  if (const std::string system = fields.text("system").value_or(""); !system.empty()) {
    messages.push_back({{"role", "system"}, {"content", system}});
  }
  messages.push_back({{"role", "user"}, {"content", prompt}});
  return request;
}

bool is_without_prompt(const RequestFields& fields) {
  const auto is_empty = [&](std::string_view field) {
    const std::optional<JsonReader> value = fields.reader().find(field);
    return !value || value->json().empty() ||
           (value->json().is_string() && value->json().get_ref<const std::string&>().empty());
  };
  return is_empty("prompt") && is_empty("messages");
}

std::optional<KeepAlive> read_keep_alive(const RequestFields& fields) {
  return fields.read("keep_alive", [](const JsonReader& value) -> KeepAlive {
    const double seconds = value.json().is_string() ? duration_seconds(value) : value.number();
    if (seconds < 0) return {};
    // A year is as good as forever, and does not overflow.
    constexpr double kMost = 365.0 * 24 * 3600;
    return {.time = std::chrono::milliseconds(static_cast<std::int64_t>(std::min(seconds, kMost) * 1000))};
  });
}

Json ollama_loaded_json(const std::string& model, bool is_chat, std::string_view reason) {
  Json json = {{"model", model}, {"created_at", now_text()}};
  if (is_chat) {
    json["message"] = {{"role", "assistant"}, {"content", ""}};
  } else {
    json["response"] = "";
  }
  json.update({{"done", true}, {"done_reason", reason}});
  return json;
}

Json ollama_model_json(const Json& about) {
  const std::string name = about.at("id");
  return {{"name", name},
          {"model", name},
          {"modified_at", time_text(std::chrono::system_clock::from_time_t(about.at("created").get<std::time_t>()))},
          {"size", about.value("size", std::uint64_t{0})},
          {"digest", ""},
          {"details", details_json(about)}};
}

Json ollama_show_json(const Json& about, const std::string& chat_template) {
  const std::string family = about.at("architecture");
  return {{"modelfile", ""},
          {"parameters", ""},
          {"template", chat_template},
          {"details", details_json(about)},
          {"model_info",
           {{"general.architecture", family},
            {"general.parameter_count", about.at("parameters")},
            {family + ".context_length", about.at("max_model_len")}}},
          {"capabilities", about.at("capabilities")}};
}

Json ollama_embeddings_json(const std::string& model, std::span<const std::vector<float>> vectors,
                            const RequestUsage& usage, std::chrono::steady_clock::duration time) {
  return {{"model", model},
          {"embeddings", vectors},
          {"total_duration", nanoseconds(time)},
          {"load_duration", 0},
          {"prompt_eval_count", usage.prompt_tokens}};
}

/// Notes when the first text came, and why the answer ends.
void OllamaFormat::see(const AnswerPiece& piece) {
  if (!first_ && !piece.parts.empty()) first_ = std::chrono::steady_clock::now();
  if (piece.end) ends_early_ = piece.end->finish != GenerateResult::Finish::kStop;
}

Json OllamaFormat::line_json(std::span<const ReplyPart> parts) {
  Json line = {{"model", model_}, {"created_at", now_text()}};
  std::string text = joined_text(parts, ReplyKind::kAnswer);
  std::string thinking = joined_text(parts, ReplyKind::kThinking);
  Json message = {{"role", "assistant"}, {"content", text}};
  Json& to = is_chat_ ? message : line;
  if (!is_chat_) line["response"] = std::move(text);
  if (!thinking.empty()) to["thinking"] = std::move(thinking);
  for (const ToolCall& call : tool_calls(parts)) {
    message["tool_calls"].push_back(
        {{"function", {{"name", call.name}, {"arguments", read_call_arguments(call.arguments)}}}});
  }
  if (is_chat_) line["message"] = std::move(message);
  line["done"] = false;
  return line;
}

Json OllamaFormat::last_json(Json line, const RequestUsage& usage) const {
  const auto now = std::chrono::steady_clock::now();
  const auto first = first_.value_or(now);
  line.update({{"done", true},
               {"done_reason", ends_early_ ? "length" : "stop"},
               {"total_duration", nanoseconds(now - begin_)},
               {"load_duration", 0},
               {"prompt_eval_count", usage.prompt_tokens},
               {"prompt_eval_duration", nanoseconds(first - begin_)},
               {"eval_count", usage.generated_tokens},
               {"eval_duration", nanoseconds(now - first)}});
  return line;
}

/// A call is sent whole, because its arguments are an object: its parts are kept until the next part or the end.
std::string OllamaFormat::write_piece(const AnswerPiece& piece) {
  see(piece);
  std::string text;
  const auto send_waiting = [&] {
    if (!parts_.empty()) text += json_text(line_json(parts_)) + "\n";
    parts_.clear();
  };
  for (const ReplyPart& part : piece.parts) {
    const bool continues = part.kind == ReplyKind::kToolArguments;
    if (part.kind == ReplyKind::kBrokenCall) parts_.clear();  // its text takes its place
    if (!continues) send_waiting();
    if (continues || part.kind == ReplyKind::kToolName) {
      parts_.push_back(part);
    } else {
      text += json_text(line_json(std::span(&part, 1))) + "\n";
    }
  }
  if (piece.end) send_waiting();
  return text;
}

std::string OllamaFormat::end_stream(const RequestUsage& usage) {
  return json_text(last_json(line_json({}), usage)) + "\n";
}

void OllamaFormat::add_choice(const AnswerPiece& choice, std::string& /*body*/) {
  see(choice);
  parts_.assign(choice.parts.begin(), choice.parts.end());
}

void OllamaFormat::end_body(const RequestUsage& usage, std::string& body) {
  body = json_text(last_json(line_json(parts_), usage));
}

}  // namespace ballast::serve
