#include "text/chat/tool_text.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace ballast::text {
namespace {

using nlohmann::ordered_json;

const ordered_json kTools = {
    {{"type", "function"}, {"function", {{"name", "add"}, {"parameters", {{"z", 1}, {"a", 2}}}}}}};

TEST_CASE("tools are described in the system message, after its own text") {
  Conversation conversation = {
      .messages = {{{"role", "system"}, {"content", "Be brief."}}, {{"role", "user"}, {"content", "1 + 1?"}}},
      .tools = kTools};
  const Conversation written = with_tools_as_text(conversation);
  CHECK(written.tools.is_null());
  REQUIRE(written.messages.size() == 2);
  const std::string system = written.messages[0]["content"];
  CHECK(system.starts_with("Be brief.\n"));
  CHECK(system.contains(R"({"name":"add","parameters":{"z":1,"a":2}})"));
  conversation.messages.erase(0);
  CHECK(with_tools_as_text(conversation).messages.size() == 2);
}

TEST_CASE("calls and results are text; several results of one turn are one message") {
  const Conversation conversation = {
      .messages = {{{"role", "user"}, {"content", "1 + 1 and 2 + 2?"}},
                   {{"role", "assistant"},
                    {"content", "I add."},
                    {"tool_calls",
                     {{{"id", "1"}, {"function", {{"name", "add"}, {"arguments", {{"b", 1}, {"a", 1}}}}}},
                      {{"id", "2"}, {"function", {{"name", "add"}, {"arguments", {{"a", 2}}}}}}}}},
                   {{"role", "tool"}, {"tool_call_id", "1"}, {"content", "2"}},
                   {{"role", "tool"}, {"tool_call_id", "2"}, {"content", "4"}},
                   {{"role", "user"}, {"content", "Thanks"}}}};
  const Conversation written = with_tools_as_text(conversation);
  REQUIRE(written.messages.size() == 4);
  CHECK(written.messages[1]["content"] ==
        "I add.\n<tool_call>\n{\"name\":\"add\",\"arguments\":{\"b\":1,\"a\":1}}\n</tool_call>\n<tool_call>\n"
        "{\"name\":\"add\",\"arguments\":{\"a\":2}}\n</tool_call>");
  CHECK_FALSE(written.messages[1].contains("tool_calls"));
  CHECK(written.messages[2]["role"] == "user");
  CHECK(written.messages[2]["content"] == "<tool_response>\n2\n</tool_response>\n<tool_response>\n4\n</tool_response>");
}

}  // namespace
}  // namespace ballast::text
