#include "files/json_reader.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "error_message.h"

namespace ballast::files {
namespace {

using nlohmann::json;
using test::error_message;

const json kDocument = {
    {"name", "llama"},
    {"size", 32},
    {"negative", -3},
    {"huge", std::numeric_limits<std::uint64_t>::max()},
    {"ratio", 0.5},
    {"flag", true},
    {"nothing", nullptr},
    {"list", {1, 2, "three"}},
    {"rope", {{"type", "yarn"}, {"a\nb", {{"x", 5}}}}},
};

JsonReader document() {
  return {kDocument, "dir/config.json"};
}

TEST_CASE("getters return values of the right type") {
  const JsonReader reader = document();
  CHECK(reader.text("name") == "llama");
  CHECK(reader.size("size") == 32);
  CHECK(reader.at("negative").integer() == -3);
  CHECK(reader.at("huge").integer<std::uint64_t>() == std::numeric_limits<std::uint64_t>::max());
  CHECK(reader.number("ratio") == 0.5);
  CHECK(reader.number("size") == 32);
  CHECK(reader.flag("flag"));
  CHECK(reader.object("rope").text("type") == "yarn");
  CHECK(reader.at("list").elements()[1].integer<int>() == 2);
  CHECK(reader.members().size() == kDocument.size());
  CHECK(reader.at("rope").members()[1].first == "type");
}

TEST_CASE("null counts as missing, and a missing field may have a default") {
  const JsonReader reader = document();
  CHECK_FALSE(reader.has("nothing"));
  CHECK_FALSE(reader.find("none"));
  CHECK(reader.size("nothing", 7) == 7);
  CHECK(reader.count("none", 0) == 0);
  CHECK(reader.number("none", 1.5) == 1.5);
  CHECK(reader.positive("none", 2.5) == 2.5);
  CHECK(reader.flag("none", true));
  CHECK(reader.text("none", "otherwise") == "otherwise");
}

TEST_CASE("an error is one line with the file and the path of the value") {
  const JsonReader reader = document();
  const auto refusal = [](const auto& read) { return error_message([&] { read(); }); };
  CHECK(refusal([&] { reader.at("none"); }) == "dir/config.json: none: missing");
  CHECK(refusal([&] { (void)reader.size("negative"); }) ==
        "dir/config.json: negative: must be between 1 and 2^31 - 1, is -3");
  CHECK(refusal([&] { (void)reader.at("huge").integer(); }) ==
        "dir/config.json: huge: must be between -9223372036854775808 and 9223372036854775807, is 18446744073709551615");
  CHECK(refusal([&] { (void)reader.size("ratio"); }) == "dir/config.json: ratio: must be a whole number, is 0.5");
  CHECK(refusal([&] { (void)reader.text("size"); }) == "dir/config.json: size: must be a string, is 32");
  CHECK(refusal([&] { (void)reader.flag("name"); }) == "dir/config.json: name: must be true or false, is \"llama\"");
  CHECK(refusal([&] { (void)reader.positive("negative"); }) == "dir/config.json: negative: must be positive");
  CHECK(refusal([&] { (void)reader.at("list").strings(); }) == "dir/config.json: list[0]: must be a string, is 1");
  CHECK(refusal([&] { (void)reader.at("list").tuple(2); }) == "dir/config.json: list: must have 2 elements, has 3");
  CHECK(refusal([&] { (void)reader.at("rope").elements(); }) ==
        test::Contains("dir/config.json: rope: must be a list"));
  CHECK(refusal([&] { reader.object("list"); }) == "dir/config.json: list: must be an object, is [1,2,\"three\"]");
  CHECK(refusal([&] { (void)reader.at("rope").at("a\nb").text("x"); }) ==
        "dir/config.json: rope.\"a\\nb\".x: must be a string, is 5");
  CHECK(refusal([&] { reader.fail("rope", "is odd"); }) == "dir/config.json: rope: is odd");
  CHECK(refusal([&] { reader.object("rope").fail("type", "is odd"); }) == "dir/config.json: rope.type: is odd");
  CHECK(refusal([] { JsonReader(json(3), "f").has("x"); }) == "f: must be an object, is 3");
}

TEST_CASE("a long value is truncated in a message, at a whole character") {
  const json value = std::string(78, 'x') + "\u00e9\u00e9";
  const std::string message = error_message([&] { (void)JsonReader(value, "f").integer(); });
  CHECK(message == "f: must be a whole number, is \"" + std::string(78, 'x') + "...");
}

}  // namespace
}  // namespace ballast::files
