#include "text/unicode/regex.h"

#include <string>

#include "doctest/doctest.h"
#include "error_message.h"
#include "text/unicode/regex_syntax.h"

namespace ballast::text {
namespace {

using test::Contains;
using test::error_message;

std::string first_match(const std::string& pattern, const std::string& text) {
  const auto match = Regex::from_pattern(pattern, "test").find(text, 0);
  return match ? text.substr(match->begin, match->end - match->begin) : "none";
}

TEST_CASE("expressions match as in Oniguruma") {
  CHECK(first_match(R"(\s+)", "a \xC2\xA0\xE3\x80\x80z") == " \xC2\xA0\xE3\x80\x80");
  CHECK(first_match(R"(\s)", "\xE1\xA0\x8E") == "none");  // U+180E
  CHECK(first_match(R"([^\s]+)", " \xE1\xA0\x8E") == "\xE1\xA0\x8E");
  CHECK(first_match(R"(\w+)", "-e\xCC\x81_1") == "e\xCC\x81_1");
  CHECK(first_match(R"(\w)", "\xC2\xB2") == "none");  // superscript two is a number but no word character
  CHECK(first_match(R"(\W)", "a\xC2\xB2") == "\xC2\xB2");
  CHECK(first_match(R"(\u4e00)", "\xE4\xB8\x80") == "\xE4\xB8\x80");
  CHECK(first_match(R"(\d{1,3}+)", "12345") == "12345");
  CHECK(first_match(R"(a$)", "a\nb") == "a");
  CHECK(first_match(R"((?i:'s))", "'S") == "'S");
  CHECK(first_match(R"(\d+\b)", "12a 345,") == "345");
  CHECK(first_match(R"(\bb+)", "ab bb") == "bb");
  CHECK(first_match("[]a]+", "a]") == "a]");
}

TEST_CASE("expressions that PCRE2 would read differently are refused") {
  for (const char* pattern :
       {R"([\W])", R"(\h)", R"(\Bx)", R"([\b])", "(?m:.)", "[a[b]]", "[a&&b]", R"(\d{2,3}+)", "a\\"}) {
    CAPTURE(pattern);
    CHECK(error_message([&] { Regex::from_pattern(pattern, "file: place"); }) ==
          Contains("file: place: the expression"));
  }
}

TEST_CASE("an expression that does not compile is an Error with the position") {
  CHECK(error_message([] { Regex::from_pattern("(a", "file: place"); }) == Contains("file: place: the expression"));
}

TEST_CASE("a literal has no special characters") {
  const auto match = Regex::from_literal(".+", "test").find("a.+b", 0);
  REQUIRE(match.has_value());
  CHECK(match->begin == 1);
  CHECK(match->end == 3);
}

TEST_CASE("an expression that exceeds the limits is an Error, not a crash") {
  const Regex regex = Regex::from_pattern("(?:(?:a|b)+)+$", "file: place");
  CHECK(error_message([&] { regex.find(std::string(60, 'a') + "!", 0); }) ==
        Contains("file: place: the expression failed"));
}

}  // namespace
}  // namespace ballast::text
