#include "serve/api/tool_fields.h"

#include <doctest/doctest.h>

#include <string>

#include "serve/api/api_error.h"

namespace ballast::serve {
namespace {

const std::string kTools =
    R"("tools": [{"type": "function", "function": {"name": "f", "description": null, "parameters":
       {"type": "object", "properties": {"z": {}, "a": {}}}}}, {"type": "function", "function": {"name": "g"}}])";

ToolFields read_tool_fields(const std::string& fields) {
  return read_tools(RequestFields("{" + fields + "}"));
}

std::string refused_tools(const std::string& fields) {
  try {
    read_tool_fields(fields);
    return {};
  } catch (const ApiError& error) {
    return error.what();
  }
}

TEST_CASE("tools keep the order of their parameters, and have no null") {
  const ToolFields fields = read_tool_fields(kTools);
  CHECK(fields.choice.kind == text::ToolChoice::Kind::kAuto);
  CHECK(fields.choice.parallel);
  REQUIRE(fields.tools.size() == 2);
  CHECK(fields.tools[0].dump() ==
        R"({"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"z":{},"a":{}}}}})");
}

TEST_CASE("a choice is a word, or names one of the tools") {
  CHECK(read_tool_fields(kTools + R"(, "tool_choice": "none")").choice.kind == text::ToolChoice::Kind::kNone);
  CHECK(offered_tools(read_tool_fields(kTools + R"(, "tool_choice": "none")")).is_null());
  CHECK(read_tool_fields(kTools + R"(, "tool_choice": "required")").choice.kind == text::ToolChoice::Kind::kRequired);
  const ToolFields named =
      read_tool_fields(kTools + R"(, "tool_choice": {"type": "function", "function": {"name": "g"}})");
  CHECK(named.choice.kind == text::ToolChoice::Kind::kNamed);
  CHECK(named.choice.name == "g");
  CHECK(
      refused_tools(kTools + R"(, "tool_choice": {"type": "function", "function": {"name": "h"}})").contains("\"h\""));
  CHECK(refused_tools(kTools + R"(, "tool_choice": "g")").contains("tool_choice"));
  CHECK(refused_tools(R"("tool_choice": "required")").contains("needs tools"));
}

TEST_CASE("the older names are read, and then there is one call") {
  const ToolFields fields = read_tool_fields(R"("functions": [{"name": "f"}], "function_call": {"name": "f"})");
  CHECK(fields.older_names);
  CHECK_FALSE(fields.choice.parallel);
  CHECK(fields.choice.kind == text::ToolChoice::Kind::kNamed);
}

TEST_CASE("a tool that cannot be called is refused by its place") {
  CHECK(refused_tools(R"("tools": [{"type": "function", "function": {"name": "a b"}}])")
            .contains("tools[0].function.name"));
  CHECK(refused_tools(R"("tools": [{"type": "web_search"}])").contains("web_search"));
  CHECK(refused_tools(R"("tools": [{"type": "function"}])").contains("function"));
  CHECK(refused_tools(R"("functions": [{"name": "f"}, {"name": "f"}])").contains("two tools"));
  CHECK(refused_tools(R"("functions": [{"name": "f", "parameters": []}])").contains("functions[0].parameters"));
}

}  // namespace
}  // namespace ballast::serve
