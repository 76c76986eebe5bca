// Requests as agents for code send them to /v1/messages and /v1/responses.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "error_message.h"
#include "serve/api/api_error.h"
#include "serve/api/messages_format.h"
#include "serve/api/responses_format.h"

namespace ballast::serve {
namespace {

using Json = nlohmann::ordered_json;
using test::Contains;

const ModelFacts kModelOfAgents = {.vocab_size = 100};

ChatRequest read_messages_body(const Json& body) {
  const std::string text = body.dump();
  return read_messages_request(RequestFields(text), kModelOfAgents, true);
}

ResponsesRequest read_responses_body(const Json& body) {
  const std::string text = body.dump();
  return read_responses_request(RequestFields(text), kModelOfAgents, "m", Json::array());
}

Json messages_body(const Json& messages) {
  return {{"max_tokens", 10}, {"messages", messages}};
}

std::vector<std::string> tool_names(const Json& tools) {
  std::vector<std::string> names;
  for (const Json& tool : tools) names.push_back(tool["function"]["name"]);
  return names;
}

TEST_CASE("the line for bills is not in the prompt, so that all prompts of a conversation begin alike") {
  Json body = messages_body({{{"role", "user"}, {"content", "a"}}});
  const std::string line = "x-anthropic-billing-header: cc_version=1; cch=";
  body["system"] = {{{"type", "text"}, {"text", line + "0f1e2;"}}, {{"type", "text"}, {"text", "Be brief."}}};
  CHECK(read_messages_body(body).conversation.messages[0] == Json{{"role", "system"}, {"content", "Be brief."}});
  body["system"] = line + "33333;\nBe brief.";
  CHECK(read_messages_body(body).conversation.messages[0]["content"] == "Be brief.");
  body["system"] = line;
  CHECK(read_messages_body(body).conversation.messages[0]["content"] == "");
  body["system"] = "Explain " + line;
  CHECK(read_messages_body(body).conversation.messages[0]["content"] == "Explain " + line);
}

TEST_CASE("messages of the system may be between others, and context management changes nothing") {
  Json body = messages_body(
      {{{"role", "user"}, {"content", "a"}}, {{"role", "system"}, {"content", {{{"type", "text"}, {"text", "b"}}}}}});
  body["context_management"] = {{"edits", {{{"type", "clear_thinking_20251015"}, {"keep", "all"}}}}};
  body["output_config"] = {{"effort", "high"}};
  const ChatRequest request = read_messages_body(body);
  CHECK(request.conversation.messages ==
        Json{{{"role", "user"}, {"content", "a"}}, {{"role", "system"}, {"content", "b"}}});
  CHECK(request.conversation.arguments["reasoning_effort"] == "high");
}

TEST_CASE("a deferred tool is offered after a search has found it") {
  const Json schema = {{"type", "object"}};
  const Json tools = {{{"name", "search"}, {"input_schema", schema}},
                      {{"name", "draw"}, {"input_schema", schema}, {"defer_loading", true}},
                      {{"name", "sing"}, {"input_schema", schema}, {"defer_loading", true}}};
  Json body = messages_body({{{"role", "user"}, {"content", "a"}}});
  body["tools"] = tools;
  CHECK(tool_names(read_messages_body(body).conversation.tools) == std::vector<std::string>{"search"});
  body["messages"].push_back(
      {{"role", "assistant"}, {"content", {{{"type", "tool_use"}, {"id", "1"}, {"name", "search"}, {"input", {}}}}}});
  body["messages"].back()["content"][0]["input"] = Json::object();
  body["messages"].push_back({{"role", "user"},
                              {"content",
                               {{{"type", "tool_result"},
                                 {"tool_use_id", "1"},
                                 {"content", {{{"type", "tool_reference"}, {"tool_name", "sing"}}}}}}}});
  const ChatRequest found = read_messages_body(body);
  CHECK(tool_names(found.conversation.tools) == std::vector<std::string>{"search", "sing"});
  CHECK(found.conversation.messages.back()["content"] == "The tool sing can be called from now on.");
}

const Json kToolsOfAgents = {
    {{"type", "function"}, {"name", "run"}, {"strict", false}, {"parameters", {{"type", "object"}}}},
    {{"type", "namespace"},
     {"name", "mcp__files__"},
     {"tools", {{{"type", "function"}, {"name", "list"}, {"defer_loading", true}}}}},
    {{"type", "namespace"}, {"name", "agents"}, {"tools", {{{"type", "custom"}, {"name", "tell"}}}}},
    {{"type", "custom"},
     {"name", "patch"},
     {"description", "Changes files."},
     {"format", {{"type", "grammar"}, {"syntax", "lark"}, {"definition", "start: /.+/"}}}},
    {{"type", "web_search"}, {"external_web_access", false}},
    {{"type", "image_generation"}}};

TEST_CASE("namespaces and custom tools are functions for the model; tools of a server are left out") {
  const ResponsesRequest request = read_responses_body({{"input", "a"}, {"tools", kToolsOfAgents}});
  const Json& tools = request.chat.conversation.tools;
  CHECK(tool_names(tools) == std::vector<std::string>{"run", "mcp__files__list", "agents__tell", "patch"});
  CHECK(tools[1]["function"].dump() == R"({"name":"mcp__files__list"})");
  CHECK(tools[3]["function"]["description"] == "Changes files.\n\nThe input matches this grammar (lark):\nstart: /.+/");
  CHECK(tools[3]["function"]["parameters"]["required"] == Json{"input"});
  CHECK(request.head["tools"].size() == 4);
  CHECK(request.tools.at("agents__tell").name_space == "agents");
  CHECK(request.tools.at("agents__tell").takes_text);
  const auto refusal = [](const Json& offered) -> std::string {
    try {
      read_responses_body({{"input", "a"}, {"tools", offered}});
      return {};
    } catch (const ApiError& error) {
      return error.what();
    }
  };
  CHECK(refusal({{{"type", "teleport"}}}) == Contains("\"teleport\" is not supported"));
  CHECK(refusal({{{"type", "namespace"}, {"name", "a"}, {"tools", {{{"type", "web_search"}}}}}}) ==
        Contains("\"web_search\" is not supported"));
  CHECK(refusal({{{"type", "function"}, {"name", "a__b"}},
                 {{"type", "namespace"}, {"name", "a"}, {"tools", {{{"type", "function"}, {"name", "b"}}}}}}) ==
        Contains("two tools are called \"a__b\""));
}

TEST_CASE("calls of all kinds of tools in the input are calls of the model's functions") {
  const Json input = {
      {{"role", "user"}, {"content", "a"}},
      {{"type", "reasoning"}, {"summary", Json::array()}, {"content", nullptr}, {"encrypted_content", "x"}},
      {{"type", "function_call"},
       {"call_id", "1"},
       {"name", "list"},
       {"namespace", "mcp__files__"},
       {"arguments", "{\"a\":1}"}},
      {{"type", "message"}, {"role", "assistant"}, {"content", {{{"type", "output_text"}, {"text", "Both."}}}}},
      {{"type", "custom_tool_call"}, {"call_id", "2"}, {"name", "patch"}, {"input", "+b"}},
      {{"type", "web_search_call"}, {"id", "ws_1"}, {"status", "completed"}},
      {{"type", "function_call_output"}, {"call_id", "1"}, {"output", {{{"type", "input_text"}, {"text", "c"}}}}},
      {{"type", "custom_tool_call_output"}, {"call_id", "2"}, {"output", "done"}}};
  const Json messages = read_responses_body({{"input", input}, {"tools", kToolsOfAgents}}).chat.conversation.messages;
  REQUIRE(messages.size() == 4);
  CHECK(messages[1]["content"] == "Both.");
  const Json& calls = messages[1]["tool_calls"];
  CHECK(calls[0]["function"] == Json{{"name", "mcp__files__list"}, {"arguments", {{"a", 1}}}});
  CHECK(calls[1]["function"] == Json{{"name", "patch"}, {"arguments", {{"input", "+b"}}}});
  CHECK(messages[2] == Json{{"role", "tool"}, {"tool_call_id", "1"}, {"content", "c"}});
  CHECK(messages[3]["content"] == "done");
}

TEST_CASE("the text of a custom tool is what the model wrote, also if it is not the expected object") {
  CHECK(custom_tool_text(R"({"input": "a\nb"})") == "a\nb");
  CHECK(custom_tool_text(R"({"patch": "a"})") == R"({"patch": "a"})");
  CHECK(custom_tool_text("*** Begin") == "*** Begin");
}

}  // namespace
}  // namespace ballast::serve
