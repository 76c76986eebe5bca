#include "serve/api/answer_format.h"

#include <doctest/doctest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/messages_format.h"
#include "serve/api/ollama_format.h"
#include "serve/api/responses_format.h"

namespace ballast::serve {
namespace {

using Json = nlohmann::ordered_json;
using enum ReplyKind;

const std::vector<ReplyPart> kParts = {{.kind = kThinking, .text = "I look it up"},
                                       {.kind = kAnswer, .text = "One moment."},
                                       {.kind = kToolName, .text = "find", .call = 0},
                                       {.kind = kToolArguments, .text = R"({"q":)", .call = 0},
                                       {.kind = kToolArguments, .text = R"("rain"})", .call = 0},
                                       {.kind = kToolName, .text = "stop", .call = 1},
                                       {.kind = kToolArguments, .text = "{}", .call = 1}};
const RequestUsage kUsage = {.prompt_tokens = 10, .cached_tokens = 4, .generated_tokens = 7, .thinking_tokens = 3};

/// Returns the events of a stream that gets one part at a time, as JSON.
std::vector<Json> stream(AnswerFormat& format, const std::vector<ReplyPart>& parts, const ChoiceEnd& end) {
  std::string text = format.begin_stream(1);
  for (const ReplyPart& part : parts) text += format.write_piece({.parts = std::span(&part, 1)});
  text += format.write_piece({.end = end});
  text += format.end_stream(kUsage);
  std::vector<Json> events;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t line_end = text.find('\n', begin);
    const std::string_view line = std::string_view(text).substr(begin, line_end - begin);
    if (line.starts_with("data: ")) events.push_back(Json::parse(line.substr(6)));
    if (line.starts_with("{")) events.push_back(Json::parse(line));
    begin = line_end + 1;
  }
  return events;
}

/// Returns the body of an answer with the parts of one kind and call joined.
Json body(AnswerFormat& format, const std::vector<ReplyPart>& parts, const ChoiceEnd& end) {
  std::vector<ReplyPart> joined;
  for (const ReplyPart& part : parts) {
    if (!joined.empty() && joined.back().kind == part.kind && joined.back().call == part.call) {
      joined.back().text += part.text;
    } else {
      joined.push_back(part);
    }
  }
  std::string text;
  format.add_choice({.parts = with_whole_calls(joined), .end = end}, text);
  format.end_body(kUsage, text);
  return Json::parse(text);
}

const ChoiceEnd kStopped = {.finish = GenerateResult::Finish::kStop};
const ChoiceEnd kCut = {.finish = GenerateResult::Finish::kLength};

TEST_CASE("a broken call is answer text in a whole reply, and the other calls stay") {
  const std::vector<ReplyPart> parts = {{.kind = kAnswer, .text = "a"},
                                        {.kind = kToolName, .text = "f", .call = 0},
                                        {.kind = kToolArguments, .text = "{", .call = 0},
                                        {.kind = kBrokenCall, .text = "<call>f{", .call = 0},
                                        {.kind = kToolName, .text = "g", .call = 1},
                                        {.kind = kToolArguments, .text = "{}", .call = 1}};
  const std::vector<ReplyPart> whole = with_whole_calls(parts);
  CHECK(joined_text(whole, kAnswer) == "a<call>f{");
  CHECK(tool_calls(whole) == std::vector<ToolCall>{{.name = "g", .arguments = "{}"}});
}

TEST_CASE("a message has blocks of thinking, text and calls, in a stream and as a body") {
  MessagesFormat whole("m", 10);
  const Json message = body(whole, kParts, kStopped);
  CHECK(message["stop_reason"] == "tool_use");
  REQUIRE(message["content"].size() == 4);
  CHECK(message["content"][0]["thinking"] == "I look it up");
  CHECK(message["content"][1]["text"] == "One moment.");
  CHECK(message["content"][2]["name"] == "find");
  CHECK(message["content"][2]["input"] == Json{{"q", "rain"}});
  CHECK(message["content"][3]["input"] == Json::object());
  CHECK(message["usage"]["input_tokens"] == 6);
  CHECK(message["usage"]["cache_read_input_tokens"] == 4);

  MessagesFormat streamed("m", 10);
  const std::vector<Json> events = stream(streamed, kParts, kStopped);
  CHECK(events.front()["type"] == "message_start");
  CHECK(events.back()["type"] == "message_stop");
  std::vector<Json> blocks;
  std::vector<std::string> inputs;
  std::size_t closed = 0;
  for (const Json& event : events) {
    if (event["type"] == "content_block_start") {
      CHECK(event["index"] == blocks.size());
      CHECK(closed == blocks.size());
      blocks.push_back(event["content_block"]);
      inputs.emplace_back();
    }
    if (event["type"] == "content_block_delta" && event["delta"]["type"] == "input_json_delta") {
      inputs.back() += event["delta"]["partial_json"].get<std::string>();
    }
    if (event["type"] == "content_block_stop") CHECK(event["index"] == closed++);
    if (event["type"] == "message_delta") CHECK(event["delta"]["stop_reason"] == "tool_use");
  }
  REQUIRE(blocks.size() == 4);
  CHECK(closed == 4);
  CHECK(blocks[2]["name"] == "find");
  CHECK(inputs[2] == R"({"q":"rain"})");
  CHECK(inputs[3] == "{}");
}

TEST_CASE("a message says which stop sequence ended it, and that its limit did") {
  MessagesFormat stopped("m", 10);
  const Json first =
      body(stopped, {{.kind = kAnswer, .text = "a"}}, {.finish = GenerateResult::Finish::kStop, .stop_string = "END"});
  CHECK(first["stop_reason"] == "stop_sequence");
  CHECK(first["stop_sequence"] == "END");
  MessagesFormat cut("m", 10);
  CHECK(body(cut, {{.kind = kAnswer, .text = "a"}}, kCut)["stop_reason"] == "max_tokens");
}

TEST_CASE("a response has items of thinking, text and calls; a stream ends with what a body has") {
  const Json head = {{"id", "resp_1"}, {"status", "in_progress"}, {"output", Json::array()}};
  Json kept;
  const auto keep = [&](const Json& /*response*/, const Json& message) { kept = message; };
  ResponsesFormat whole(head, keep);
  const Json response = body(whole, kParts, kStopped);
  CHECK(response["status"] == "completed");
  REQUIRE(response["output"].size() == 4);
  CHECK(response["output"][0]["content"][0]["text"] == "I look it up");
  CHECK(response["output"][1]["content"][0]["text"] == "One moment.");
  CHECK(response["output"][2]["arguments"] == R"({"q":"rain"})");
  CHECK(response["usage"]["output_tokens_details"]["reasoning_tokens"] == 3);
  CHECK(kept["content"] == "One moment.");
  CHECK(kept["tool_calls"][0]["function"]["arguments"] == Json{{"q", "rain"}});
  CHECK(kept["tool_calls"][0]["id"] == response["output"][2]["call_id"]);

  ResponsesFormat streamed(head, keep);
  const std::vector<Json> events = stream(streamed, kParts, kStopped);
  for (std::size_t i = 0; i < events.size(); ++i) CHECK(events[i]["sequence_number"] == i);
  CHECK(events.back()["type"] == "response.completed");
  Json last = events.back()["response"]["output"];
  Json first = response["output"];
  REQUIRE(last.size() == first.size());
  for (std::size_t i = 0; i < last.size(); ++i) {  // ids are random
    for (const char* id : {"id", "call_id"}) {
      last[i].erase(id);
      first[i].erase(id);
    }
  }
  CHECK(last == first);
}

TEST_CASE("a response that its limit ends is incomplete, as is its last item") {
  ResponsesFormat format({{"id", "resp_1"}, {"output", Json::array()}}, [](const Json&, const Json&) {});
  const Json response = body(format, {{.kind = kAnswer, .text = "a"}}, kCut);
  CHECK(response["status"] == "incomplete");
  CHECK(response["incomplete_details"]["reason"] == "max_output_tokens");
  CHECK(response["output"][0]["status"] == "incomplete");
}

TEST_CASE("Ollama's lines have whole calls, and its last one the figures") {
  OllamaFormat streamed("m", true);
  const std::vector<Json> lines = stream(streamed, kParts, kStopped);
  std::vector<Json> calls;
  std::string text;
  for (const Json& line : lines) {
    text += line["message"]["content"].get<std::string>();
    if (line["message"].contains("tool_calls")) calls.push_back(line["message"]["tool_calls"][0]["function"]);
  }
  CHECK(text == "One moment.");
  CHECK(calls == std::vector<Json>{{{"name", "find"}, {"arguments", {{"q", "rain"}}}},
                                   {{"name", "stop"}, {"arguments", Json::object()}}});
  CHECK(lines.back()["done"] == true);
  CHECK(lines.back()["eval_count"] == 7);
  OllamaFormat whole("m", true);
  const Json answer = body(whole, kParts, kCut);
  CHECK(answer["message"]["tool_calls"].size() == 2);
  CHECK(answer["message"]["thinking"] == "I look it up");
  CHECK(answer["done_reason"] == "length");
}

}  // namespace
}  // namespace ballast::serve
