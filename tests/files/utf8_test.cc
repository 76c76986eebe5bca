#include "files/utf8.h"

#include <string>
#include <utility>
#include <vector>

#include "doctest/doctest.h"

namespace ballast::files {
namespace {

const std::string kBad = "\xEF\xBF\xBD";

TEST_CASE("invalid UTF-8 is replaced maximal subpart by maximal subpart, as Python does") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", ""},
      {"plain ASCII of more than eight bytes", "plain ASCII of more than eight bytes"},
      {"caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80", "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"},
      {"\x80", kBad},
      {"a\xC3", "a" + kBad},
      {"\xC3(", kBad + "("},
      {"\xE2\x82(", kBad + "("},
      {"\xF0\x9F\x98", kBad},
      {"\xF0\x9F\x98\xF0\x9F\x98\x80", kBad + "\xF0\x9F\x98\x80"},
      {"\xC0\xAF", kBad + kBad},
      {"\xED\xA0\x80", kBad + kBad + kBad},
      {"\xE0\x80\x80", kBad + kBad + kBad},
      {"\xF4\x90\x80\x80", kBad + kBad + kBad + kBad},
      {"\xFF\xFE", kBad + kBad},
      {std::string("\0\xC3\xA9\0", 4), std::string("\0\xC3\xA9\0", 4)},
      {"12345678\xE2\x82", "12345678" + kBad},
  };
  for (const auto& [bytes, text] : cases) {
    CHECK(replace_invalid_utf8(bytes) == text);
    CHECK(is_utf8(bytes) == (bytes == text));
  }
}

TEST_CASE("every code point is written and read back") {
  for (const char32_t code_point :
       {U'\0', U'a', U'\x7F', U'\x80', U'\x7FF', U'\x800', U'\xFFFD', U'\x10000', U'\x10FFFF'}) {
    std::string text;
    append_utf8(code_point, text);
    CHECK(first_code_point(text) == code_point);
    CHECK(utf8_step(text, 0).length == text.size());
    CHECK(last_code_point_begin("ab" + text) == 2);
    CHECK(replace_invalid_utf8(text) == text);
  }
}

TEST_CASE("code points are counted") {
  CHECK(count_code_points("") == 0);
  CHECK(count_code_points("caf\xC3\xA9 \xE2\x82\xAC") == 6);
}

}  // namespace
}  // namespace ballast::files
