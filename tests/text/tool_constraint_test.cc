#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "error_message.h"
#include "text/reply/offered_tool.h"
#include "text/reply/reply_format.h"
#include "text/reply/tool_constraint.h"
#include "text/tokenizer.h"
#include "tiny_tokenizer.h"

namespace ballast::text {
namespace {

using nlohmann::ordered_json;
using test::Contains;
using test::error_message;
using ChoiceKind = ToolChoice::Kind;

std::vector<OfferedTool> two_tools() {
  return read_tools(parse_tools(R"([
    {"name": "add", "strict": true, "parameters": {"type": "object", "properties": {"a": {"type": "integer"},
      "b": {"type": "string"}}, "required": ["b"]}},
    {"name": "now", "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}}}])"));
}

ordered_json format_of(const std::string& format, const ToolChoice& choice,
                       const std::vector<std::string>& special = {}, const ordered_json& answer = nullptr) {
  nlohmann::json written = test::tiny_tokenizer_json();
  int id = 262;
  for (const std::string& token : special) {
    written["added_tokens"].push_back({{"id", id++}, {"content", token}, {"special", true}, {"normalized", false}});
  }
  const auto tokenizer = test::make_tiny_tokenizer(written);
  return tool_constraint(find_reply_format(*tokenizer, format), *tokenizer, two_tools(), choice, answer).format;
}

bool contains(const ordered_json& format, const ordered_json& part) {
  return format.dump().contains(part.dump());
}

TEST_CASE("a call has the name of an offered tool, and the arguments of a strict one follow its schema") {
  const ordered_json format = format_of("hermes", {});
  CHECK(format["type"] == "dispatch");
  REQUIRE(format["rules"].is_array());
  CHECK(format["rules"][0][0] == "<tool_call>");
  CHECK(format["loop"] == true);
  CHECK(contains(format, {{"type", "const_string"}, {"value", R"({"name": "add", "arguments": )"}}));
  CHECK(contains(format, {{"type", "const_string"}, {"value", R"({"name": "now", "arguments": )"}}));
  CHECK(contains(format, {{"type", "json_schema"}, {"json_schema", two_tools()[0].parameters}}));
  CHECK_FALSE(contains(format, two_tools()[1].parameters));
  CHECK(contains(format, {{"type", "json_schema"}, {"json_schema", {{"type", "object"}}}}));
  CHECK(format_of("hermes", {.parallel = false})["loop"] == false);
}

TEST_CASE("required calls follow the schemas of all tools, and a named one is the only one") {
  const ordered_json required = format_of("hermes", {.kind = ChoiceKind::kRequired});
  CHECK(required["type"] == "sequence");
  CHECK(contains(required, two_tools()[0].parameters));
  CHECK(contains(required, two_tools()[1].parameters));
  CHECK(contains(required, "star"));
  CHECK_FALSE(contains(format_of("hermes", {.kind = ChoiceKind::kRequired, .parallel = false}), "star"));
  const ordered_json named = format_of("hermes", {.kind = ChoiceKind::kNamed, .name = "now"});
  CHECK(contains(named, two_tools()[1].parameters));
  CHECK_FALSE(contains(named, two_tools()[0].parameters));
  CHECK(error_message([] { format_of("hermes", {.kind = ChoiceKind::kNamed, .name = "sub"}); }) ==
        Contains("tool_choice: \"sub\" is not one of the tools"));
  CHECK(error_message([] { format_of("think", {.kind = ChoiceKind::kRequired}); }) ==
        Contains("requires a call, and the reply format think has none"));
}

TEST_CASE("marks that are special tokens are tokens of the constraint") {
  const ordered_json format = format_of("mistral", {}, {"[TOOL_CALLS]", "[ARGS]"});
  CHECK(format["type"] == "token_dispatch");
  CHECK(format["rules"][0][0] == 262);
  CHECK(contains(format, {{"type", "token"}, {"token", 263}}));
}

TEST_CASE("parameters between marks follow the schema, the required ones first") {
  const std::string format = format_of("qwen3-coder", {.kind = ChoiceKind::kNamed, .name = "add"}).dump();
  CHECK(format.find("\"value\":\"b\"") < format.find("\"value\":\"a\""));
  CHECK(format.find("\"value\":\"a\"") != std::string::npos);
  CHECK(format.contains(R"({"type":"any_text","excludes":["</parameter>"]})"));
  CHECK(format.contains(R"({"type":"json_schema","json_schema":{"type":"integer"}})"));
}

TEST_CASE("elements follow the schema, those of members and items within others") {
  const auto tokenizer = test::make_tiny_tokenizer();
  const std::vector<OfferedTool> tools = read_tools(parse_tools(R"([{"name": "f", "parameters": {"type": "object",
    "properties": {"a": {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]},
                   "list": {"type": "array", "items": {"$ref": "#/$defs/word"}}, "node": {"$ref": "#/$defs/node"}},
    "required": ["list"], "$defs": {"word": {"type": "string"},
      "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}}}}])"));
  const ReplyFormat& format = find_reply_format(*tokenizer, "minimax-m3");
  const std::string written = tool_constraint(format, *tokenizer, tools, {.kind = ChoiceKind::kRequired}).format.dump();
  CHECK(written.contains("]<]minimax[>[<a>"));
  CHECK(written.contains("]<]minimax[>[</b>"));
  CHECK(written.contains(R"({"type":"json_schema","json_schema":{"type":"integer")"));
  CHECK(written.contains("]<]minimax[>[<item>"));
  CHECK(written.contains(R"({"type":"any_text","excludes":["]<]minimax[>[</item>"]})"));
  CHECK(written.contains("]<]minimax[>[<next>"));
  const std::string loose = tool_constraint(format, *tokenizer, tools, {}).format.dump();
  CHECK_FALSE(loose.contains("]<]minimax[>[<a>"));
  CHECK(loose.contains("]<]minimax[>[</invoke>"));
}

TEST_CASE("schemas that refer to each other in many ways end soon") {
  ordered_json node = {{"type", "object"}, {"properties", ordered_json::object()}, {"anyOf", ordered_json::array()}};
  for (int i = 0; i < 30; ++i) {
    node["properties"]["p" + std::to_string(i)] = {{"$ref", "#/$defs/node"}};
    node["anyOf"].push_back({{"$ref", "#/$defs/node"}});
  }
  const ordered_json parameters = {
      {"type", "object"}, {"properties", {{"a", {{"$ref", "#/$defs/node"}}}}}, {"$defs", {{"node", node}}}};
  const ordered_json list = ordered_json::array({{{"name", "f"}, {"parameters", parameters}}});
  const auto tokenizer = test::make_tiny_tokenizer();
  const std::string written = tool_constraint(find_reply_format(*tokenizer, "minimax-m3"), *tokenizer, read_tools(list),
                                              {.kind = ChoiceKind::kRequired})
                                  .format.dump();
  CHECK(written.contains("]<]minimax[>[<p29>"));
  CHECK(written.size() < 100'000'000);
  CHECK(member_schema(parameters, parameters, "b") == nullptr);
}

TEST_CASE("the next object of MiniMax M1's lines is written once") {
  const std::string format = format_of("minimax-m1", {.kind = ChoiceKind::kRequired}).dump();
  CHECK(format.contains(R"({"type":"const_string","value":"{\"name\": \"now\", \"arguments\": "})"));
  CHECK_FALSE(format.contains(R"("value":"\n{")"));
}

TEST_CASE("an answer of a schema and calls are alternatives") {
  const ordered_json answer = {{"type", "json_schema"}, {"json_schema", {{"type", "array"}}}};
  const ordered_json format = format_of("hermes", {}, {}, answer);
  CHECK(format["type"] == "or");
  CHECK(format["elements"][1] == answer);
  CHECK(format_of("hermes", {.kind = ChoiceKind::kNone}, {}, answer) == answer);
  CHECK(format_of("hermes", {.kind = ChoiceKind::kNone}).is_null());
  CHECK(format_of("llama3", {}).is_null());
  CHECK_FALSE(format_of("llama3", {.kind = ChoiceKind::kRequired}).is_null());
}

TEST_CASE("harmony's constraint includes its channels") {
  const auto tokenizer = test::make_tiny_tokenizer();
  const ToolConstraint constraint =
      tool_constraint(find_reply_format(*tokenizer, "harmony"), *tokenizer, two_tools(), {});
  CHECK(constraint.has_thinking);
  CHECK(constraint.format.dump().contains("to=functions.add"));
  CHECK(constraint.format.dump().contains("<|channel|>final<|message|>"));
  CHECK(constraint.format["elements"][0]["type"] == "star");
  const ordered_json limited =
      tool_constraint(find_reply_format(*tokenizer, "harmony"), *tokenizer, two_tools(), {}, nullptr, 7).format;
  CHECK(limited["elements"][0]["type"] == "optional");
  CHECK(contains(limited, {{"type", "any_text"}, {"max_tokens", 7}}));
}

TEST_CASE("only Kimi's calls may end the thinking") {
  const auto tokenizer = test::make_tiny_tokenizer();
  const auto ending = [&](const char* format, const ToolChoice& choice) {
    return tool_constraint(find_reply_format(*tokenizer, format), *tokenizer, two_tools(), choice).ending_thinking;
  };
  CHECK(ending("hermes", {}).is_null());
  CHECK(ending("kimi", {.kind = ChoiceKind::kNone}).is_null());
  CHECK(contains(ending("kimi", {}), "functions.now"));
  CHECK_FALSE(contains(ending("kimi", {.kind = ChoiceKind::kNamed, .name = "add"}), "functions.now"));
}

}  // namespace
}  // namespace ballast::text
