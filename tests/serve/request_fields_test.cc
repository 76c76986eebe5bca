#include "serve/api/request_fields.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "serve/api/api_error.h"

namespace ballast::serve {
namespace {

/// Returns the value of the field "x" with this JSON, or nullopt if it is refused.
std::optional<std::int64_t> integer_of(const std::string& json, std::int64_t least, std::int64_t most) {
  try {
    return RequestFields(R"({"x": )" + json + "}").integer("x", least, most);
  } catch (const ApiError& error) {
    CHECK(error.status() == 400);
    return std::nullopt;
  }
}

TEST_CASE("a whole number may have a fraction of zero or an exponent, within its limits") {
  CHECK(integer_of("16.0", 0, 100) == 16);
  CHECK(integer_of("1e1", 0, 100) == 10);
  CHECK(integer_of("-0.0", 0, 100) == 0);
  CHECK_FALSE(integer_of("1.5", 0, 100));
  CHECK_FALSE(integer_of("101.0", 0, 100));
  CHECK_FALSE(integer_of("-1.0", 0, 100));
  CHECK_FALSE(integer_of("\"16\"", 0, 100));
  CHECK_FALSE(integer_of("true", 0, 100));
}

TEST_CASE("floats beyond 64 bits are out of range, not undefined") {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  CHECK(integer_of("-9223372036854775808.0", kLeast, kMost) == kLeast);
  CHECK_FALSE(integer_of("9223372036854775808.0", kLeast, kMost));
  CHECK_FALSE(integer_of("1e300", kLeast, kMost));
  CHECK_FALSE(integer_of("-1e300", kLeast, kMost));
  CHECK_FALSE(integer_of("1e999", kLeast, kMost));
}

TEST_CASE("a byte order mark before the body is ignored, and one within it is not") {
  CHECK(RequestFields("\xEF\xBB\xBF{\"x\": 1}").has("x"));
  CHECK_THROWS_AS(RequestFields("\xEF\xBB\xBF"), ApiError);
  CHECK_THROWS_AS(RequestFields("{\xEF\xBB\xBF\"x\": 1}"), ApiError);
}

TEST_CASE("a field keeps the order of its members, wherever it is in the body and however its name is written") {
  const auto ordered = [](const std::string& body, const char* field) {
    return RequestFields(body).ordered(field).dump();
  };
  const std::string body =
      R"( { "a\"}" : [1, {"x": "}]\\"}] ,"n":-1.5e3,"t" : "{\"z\": 1,", "e":{},"b":{"y":1,"a":{"q":null,"p":[]}} ,"last":true } )";
  CHECK(ordered(body, "b") == R"({"y":1,"a":{"q":null,"p":[]}})");
  CHECK(ordered(body, "a\"}") == R"([1,{"x":"}]\\"}])");
  CHECK(ordered(body, "n") == "-1500.0");
  CHECK(ordered(body, "t") == R"("{\"z\": 1,")");
  CHECK(ordered(body, "e") == "{}");
  CHECK(ordered(body, "last") == "true");
  CHECK(ordered(body, "missing") == "null");
  CHECK(ordered(R"({"\u0062":{"z":1,"y":2}})", "b") == R"({"z":1,"y":2})");
  CHECK(ordered("\xEF\xBB\xBF{\"b\":[{\"z\":1,\"y\":2}]}", "b") == R"([{"z":1,"y":2}])");
}

}  // namespace
}  // namespace ballast::serve
