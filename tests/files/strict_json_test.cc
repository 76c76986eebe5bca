#include "files/strict_json.h"

#include <doctest/doctest.h>

#include <string>

#include "error_message.h"
#include "temporary_directory.h"

namespace ballast::files {
namespace {

using test::Contains;
using test::error_message;

std::string refusal_to_parse(const std::string& text) {
  return error_message([&] { parse_strict_json(text, "file", 8); });
}

TEST_CASE("JSON of every kind of value is read as the library reads it") {
  const std::string text =
      R"({"a":[1,-2,3.5,1e300,true,false,null,"x\u00e9",[[]],{}],"b":{"c":{"d":[{"e":18446744073709551615}]}}})";
  CHECK(parse_strict_json(text, "file") == nlohmann::json::parse(text));
}

TEST_CASE("a syntax error has its byte offset in the file") {
  CHECK(refusal_to_parse("{\"a\": ?}") == Contains("file: byte 14: not valid JSON: syntax error"));
  CHECK(refusal_to_parse("") == Contains("not valid JSON"));
  CHECK(refusal_to_parse("{\"a\":1") == Contains("not valid JSON"));
  CHECK(refusal_to_parse("{} x") == Contains("byte 11: not valid JSON"));
  CHECK(refusal_to_parse("\"\xff\"") == Contains("UTF-8"));
}

TEST_CASE("a key that occurs twice in one object is refused") {
  CHECK(refusal_to_parse(R"({"a":1,"b":{"a":1},"a":2})") == "file: key \"a\" is there twice");
  CHECK(refusal_to_parse(R"({"a":1,"b":{"a":1}})") == "no error");
}

TEST_CASE("unlimited nesting is refused and does not exhaust the stack") {
  CHECK(refusal_to_parse(std::string(1'000'000, '[')) == "file: JSON nested more than 64 levels deep");
  std::string objects;
  for (int i = 0; i < 100; ++i) objects += "{\"a\":";
  CHECK(refusal_to_parse(objects) == "file: JSON nested more than 64 levels deep");
  CHECK(refusal_to_parse(std::string(64, '[') + std::string(64, ']')) == "no error");
}

TEST_CASE("a file that does not hold a JSON object is refused by name") {
  const test::TemporaryDirectory directory;
  const auto path = test::write_file(directory / "config.json", "[1]");
  CHECK(error_message([&] { read_json_object(path); }) ==
        path.string() + ": byte 0: a JSON object is expected, not array");
}

}  // namespace
}  // namespace ballast::files
