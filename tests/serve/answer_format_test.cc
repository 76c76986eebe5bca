#include "serve/api/answer_format.h"

#include <doctest/doctest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/chat_format.h"
#include "serve/api/messages_format.h"
#include "serve/api/ollama_format.h"
#include "serve/api/responses_format.h"
#include "tiny_tokenizer.h"

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

std::vector<Json> parse_events(const std::string& text) {
  std::vector<Json> events;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t line_end = text.find('\n', begin);
    const std::string_view line = std::string_view(text).substr(begin, line_end - begin);
    if (line.starts_with("data: {")) events.push_back(Json::parse(line.substr(6)));
    if (line.starts_with("{")) events.push_back(Json::parse(line));
    begin = line_end + 1;
  }
  return events;
}

/// Returns the events of a stream that gets one part at a time, as JSON.
std::vector<Json> stream(AnswerFormat& format, const std::vector<ReplyPart>& parts, const ChoiceEnd& end) {
  std::string text = format.begin_stream(1);
  for (const ReplyPart& part : parts) text += format.write_piece({.parts = std::span(&part, 1)});
  text += format.write_piece({.end = end});
  text += format.end_stream(kUsage);
  return parse_events(text);
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
  const CountedParts whole = with_whole_calls({.parts = joined, .tokens = {}});
  format.add_choice({.parts = whole.parts, .end = end}, text);
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
  const CountedParts whole = with_whole_calls({.parts = parts, .tokens = {1, 2, 3, 0, 4, 5}});
  CHECK(whole.parts == std::vector<ReplyPart>{{.kind = kAnswer, .text = "a<call>f{"},
                                              {.kind = kToolName, .text = "g", .call = 0},
                                              {.kind = kToolArguments, .text = "{}", .call = 0}});
  CHECK(whole.tokens == std::vector<std::size_t>{6, 4, 5});
}

// A call whose name was sent, and that was then malformed, or cut.
const std::vector<ReplyPart> kBroken = {{.kind = kAnswer, .text = "a"},
                                        {.kind = kToolName, .text = "f", .call = 0},
                                        {.kind = kToolArguments, .text = "{", .call = 0},
                                        {.kind = kBrokenCall, .text = "<call>f{", .call = 0}};

TEST_CASE("a streamed chat says a broken call as text, and does not end with calls") {
  const auto tokenizer = test::make_tiny_tokenizer();
  for (const bool older_names : {false, true}) {
    for (const ChoiceEnd& end : {kStopped, kCut}) {
      ChatFormat format(*tokenizer, {.id = "i", .model = "m"}, older_names);
      std::string text;
      Json last;
      for (const Json& event : stream(format, kBroken, end)) {
        last = event["choices"][0];
        text += last["delta"].value("content", "");
      }
      CHECK(text == "a<call>f{");
      CHECK(last["finish_reason"] == (end.finish == GenerateResult::Finish::kStop ? "stop" : "length"));
    }
  }
  std::vector<ReplyPart> parts = kBroken;
  parts.push_back({.kind = kToolName, .text = "g", .call = 1});
  parts.push_back({.kind = kToolArguments, .text = "{}", .call = 1});
  ChatFormat format(*tokenizer, {.id = "i", .model = "m"}, false);
  CHECK(stream(format, parts, kStopped).back()["choices"][0]["finish_reason"] == "tool_calls");
}

TEST_CASE("a delta of a chat has one entry for each call, also if its name and arguments come at once") {
  const auto tokenizer = test::make_tiny_tokenizer();
  const std::vector<ReplyPart> parts = {{.kind = kToolName, .text = "f", .call = 0},
                                        {.kind = kToolArguments, .text = "{", .call = 0},
                                        {.kind = kToolArguments, .text = "}", .call = 0},
                                        {.kind = kToolName, .text = "g", .call = 1},
                                        {.kind = kToolArguments, .text = "{ }", .call = 1}};
  const auto delta = [&](bool older_names) {
    ChatFormat format(*tokenizer, {.id = "i", .model = "m"}, older_names);
    return parse_events(format.write_piece({.parts = parts})).at(0)["choices"][0]["delta"];
  };
  const Json calls = delta(false)["tool_calls"];
  REQUIRE(calls.size() == 2);
  CHECK(calls[0]["index"] == 0);
  CHECK(calls[0]["function"] == Json{{"name", "f"}, {"arguments", "{}"}});
  CHECK(calls[1]["function"] == Json{{"name", "g"}, {"arguments", "{ }"}});
  CHECK(delta(true)["function_call"] == Json{{"name", "f"}, {"arguments", "{}"}});
}

TEST_CASE("a streamed message, response and line of Ollama say a broken call as text") {
  MessagesFormat messages("m", 10);
  std::string text;
  for (const Json& event : stream(messages, kBroken, kStopped)) {
    if (event["type"] == "content_block_delta") text += event["delta"].value("text", "");
    if (event["type"] == "message_delta") CHECK(event["delta"]["stop_reason"] == "end_turn");
  }
  CHECK(text == "a<call>f{");

  Json kept;
  const Json head = {{"id", "resp_1"}, {"output", Json::array()}};
  ResponsesFormat responses(head, {}, [&](const Json& /*response*/, const Json& message) { kept = message; });
  const std::vector<Json> events = stream(responses, kBroken, kStopped);
  std::vector<Json> done;
  for (const Json& event : events) {
    if (event["type"] == "response.output_item.done") done.push_back(event);
    CHECK(event["type"] != "response.function_call_arguments.done");
  }
  REQUIRE(done.size() == 3);
  CHECK(done[1]["item"]["status"] == "incomplete");
  CHECK(done[2]["output_index"] == 2);
  const Json& output = events.back()["response"]["output"];
  REQUIRE(output.size() == 2);
  CHECK(output[1]["content"][0]["text"] == "<call>f{");
  CHECK(kept["content"] == "a<call>f{");
  CHECK_FALSE(kept.contains("tool_calls"));

  OllamaFormat ollama("m", true);
  std::string said;
  for (const Json& line : stream(ollama, kBroken, kCut)) {
    CHECK_FALSE(line["message"].contains("tool_calls"));
    said += line["message"]["content"].get<std::string>();
  }
  CHECK(said == "a<call>f{");
}

TEST_CASE("a response has the log-probabilities of its text's tokens, in a stream as in a body") {
  const auto tokenizer = test::make_tiny_tokenizer();
  const Json head = {{"id", "resp_1"}, {"output", Json::array()}};
  const auto ignore = [](const Json&, const Json&) {};
  // "a" is thought, then come a mark, a token whose text is held back, one that shows both, and the end.
  std::vector<GeneratedToken> tokens;
  const int other = tokenizer->encode("z").front();
  for (const int id : tokenizer->encode("abcde")) {
    const double logprob = -static_cast<double>(tokens.size());
    tokens.push_back({.id = id, .logprob = logprob, .top = {{.id = other, .logprob = -9}}});
  }
  const std::vector<ReplyPart> parts = {{.kind = kThinking, .text = "a"}, {.kind = kAnswer, .text = "cd"}};
  const auto names = [](const Json& logprobs) {
    std::string text;
    for (const Json& entry : logprobs) text += entry["token"].get<std::string>();
    return text;
  };

  ResponsesFormat whole(head, {}, ignore, tokenizer.get());
  std::string body;
  whole.add_choice({.parts = parts, .tokens = tokens, .part_tokens = std::vector<std::size_t>{2, 3}, .end = kStopped},
                   body);
  whole.end_body(kUsage, body);
  const Json said = Json::parse(body)["output"][1]["content"][0];
  CHECK(names(said["logprobs"]) == "cde");
  CHECK(said["logprobs"][0]["logprob"] == -2.0);
  CHECK(said["logprobs"][0]["top_logprobs"][0]["token"] == "z");

  ResponsesFormat streamed(head, {}, ignore, tokenizer.get());
  const std::span<const GeneratedToken> all = tokens;
  const std::span<const ReplyPart> pieces = parts;
  const std::vector<std::size_t> one = {1};
  std::string text = streamed.begin_stream(1);
  text += streamed.write_piece({.parts = pieces.first(1), .tokens = all.first(1), .part_tokens = one});
  text += streamed.write_piece(
      {.parts = pieces.last(1), .tokens = all.subspan(1, 3), .part_tokens = std::vector<std::size_t>{2}});
  text += streamed.write_piece({.tokens = all.last(1), .end = kStopped});
  text += streamed.end_stream(kUsage);
  const std::vector<Json> events = parse_events(text);
  CHECK(events.back()["response"]["output"][1]["content"][0]["logprobs"] == said["logprobs"]);
  std::string deltas;
  for (const Json& event : events) {
    if (event["type"] == "response.output_text.delta") deltas += names(event["logprobs"]);
    if (event["type"] == "response.output_text.done") CHECK(event["logprobs"] == said["logprobs"]);
  }
  CHECK(deltas == "cd");
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
  ResponsesFormat whole(head, {}, keep);
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

  ResponsesFormat streamed(head, {}, keep);
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

TEST_CASE("calls of custom tools have a text, those in namespaces both names, and the model's message its own") {
  const Json head = {{"id", "resp_1"}, {"output", Json::array()}};
  const ResponseToolMap tools = {{"patch", {.name = "patch", .takes_text = true}},
                                 {"files__list", {.name = "list", .name_space = "files"}}};
  const std::vector<ReplyPart> parts = {{.kind = kToolName, .text = "patch", .call = 0},
                                        {.kind = kToolArguments, .text = R"({"input":"a\)", .call = 0},
                                        {.kind = kToolArguments, .text = R"(nb"})", .call = 0},
                                        {.kind = kToolName, .text = "files__list", .call = 1},
                                        {.kind = kToolArguments, .text = "{}", .call = 1}};
  Json kept;
  ResponsesFormat format(head, tools, [&](const Json& /*response*/, const Json& message) { kept = message; });
  const std::vector<Json> events = stream(format, parts, kStopped);
  std::vector<std::string> types;
  for (const Json& event : events) {
    types.push_back(event["type"]);
    if (types.back() == "response.custom_tool_call_input.delta") CHECK(event["delta"] == "a\nb");
    if (types.back() == "response.custom_tool_call_input.done") CHECK(event["input"] == "a\nb");
  }
  CHECK(types == std::vector<std::string>{"response.created", "response.in_progress", "response.output_item.added",
                                          "response.custom_tool_call_input.delta",
                                          "response.custom_tool_call_input.done", "response.output_item.done",
                                          "response.output_item.added", "response.function_call_arguments.delta",
                                          "response.function_call_arguments.done", "response.output_item.done",
                                          "response.completed"});
  const Json& output = events.back()["response"]["output"];
  CHECK(output[0]["type"] == "custom_tool_call");
  CHECK(output[0]["name"] == "patch");
  CHECK(output[0]["input"] == "a\nb");
  CHECK(output[1]["type"] == "function_call");
  CHECK(output[1]["name"] == "list");
  CHECK(output[1]["namespace"] == "files");
  CHECK(kept["tool_calls"][0]["function"] == Json{{"name", "patch"}, {"arguments", {{"input", "a\nb"}}}});
  CHECK(kept["tool_calls"][1]["function"]["name"] == "files__list");
}

TEST_CASE("a response that its limit ends is incomplete, as is its last item") {
  ResponsesFormat format({{"id", "resp_1"}, {"output", Json::array()}}, {}, [](const Json&, const Json&) {});
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
