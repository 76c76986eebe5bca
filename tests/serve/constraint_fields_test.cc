#include "serve/api/constraint_fields.h"

#include <doctest/doctest.h>

#include <string>

#include "serve/api/api_error.h"

namespace ballast::serve {
namespace {

using Kind = Constraint::Kind;

Constraint read_field_constraint(const std::string& fields) {
  return read_constraint(RequestFields("{" + fields + "}")).constraint;
}

std::string refused_constraint(const std::string& fields) {
  try {
    read_field_constraint(fields);
    return {};
  } catch (const ApiError& error) {
    return error.what();
  }
}

TEST_CASE("a schema keeps the order of its properties, by each name") {
  const std::string schema = R"({"properties":{"z":{},"a":{}}})";
  const Constraint wanted = {.kind = Kind::kJsonSchema, .text = schema};
  CHECK(read_field_constraint(R"("response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": )" +
                              schema + "}}") == wanted);
  CHECK(read_field_constraint(R"("response_format": {"type": "json_object", "schema": )" + schema + "}") == wanted);
  CHECK(read_field_constraint(R"("guided_json": )" + schema) == wanted);
  CHECK(read_field_constraint(R"("guided_json": "{\"properties\":{\"z\":{},\"a\":{}}}")") == wanted);
  CHECK(read_field_constraint(R"("json_schema": )" + schema) == wanted);
  CHECK(read_field_constraint(R"("structured_outputs": {"json": )" + schema + "}") == wanted);
}

TEST_CASE("there are constraints of each kind, and none") {
  CHECK_FALSE(read_field_constraint(R"("response_format": {"type": "text"}, "grammar": "")"));
  CHECK(read_field_constraint(R"("response_format": {"type": "json_object"})").kind == Kind::kJsonObject);
  CHECK(read_field_constraint(R"("guided_regex": "a+")") == Constraint{.kind = Kind::kRegex, .text = "a+"});
  CHECK(read_field_constraint(R"("structured_outputs": {"choice": ["a", "b"]})").choices ==
        std::vector<std::string>{"a", "b"});
  CHECK(read_field_constraint(R"("grammar": "root ::= \"a\"")").kind == Kind::kGrammar);
  CHECK(
      read_field_constraint(R"("structured_outputs": {"json_object": true, "disable_any_whitespace": true})").compact);
}

TEST_CASE("a second constraint and unknown kinds are refused by name") {
  CHECK(refused_constraint(R"("grammar": "root ::= \"a\"", "guided_regex": "a")").contains("cannot be combined"));
  CHECK(refused_constraint(R"("structured_outputs": {"json": {}, "regex": "a"})").contains("structured_outputs.regex"));
  CHECK(refused_constraint(R"("structured_outputs": {})").contains("needs one of"));
  CHECK(refused_constraint(R"("response_format": {"type": "xml"})").contains("xml"));
  CHECK(refused_constraint(R"("response_format": {"type": "json_schema"})").contains("response_format"));
  CHECK(refused_constraint(R"("guided_json": 7)").contains("guided_json"));
}

TEST_CASE("an object with more members than can be kept in order is refused") {
  std::string members;
  for (std::size_t i = 0; i <= kMostOrderedMembers; ++i) {
    members += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":1";
  }
  CHECK(refused_constraint(R"("guided_json": {)" + members + "}").contains("members"));
}

}  // namespace
}  // namespace ballast::serve
