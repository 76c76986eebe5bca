#include "text/unicode/utf8.h"

#include <string>
#include <utility>
#include <vector>

#include "doctest/doctest.h"
#include "text/tokenizer.h"
#include "tiny_tokenizer.h"

namespace ballast::text {
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
  for (const auto& [bytes, text] : cases) CHECK(replace_invalid_utf8(bytes) == text);
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

std::vector<std::string> streamed(const Tokenizer& tokenizer, const std::vector<int>& ids) {
  StreamDecoder decoder(tokenizer);
  std::vector<std::string> texts;
  for (const int id : ids) texts.push_back(decoder.push(id));
  texts.push_back(decoder.finish());
  return texts;
}

TEST_CASE("a stream shows a character only when all its bytes have come") {
  const auto tokenizer = test::make_tiny_tokenizer();
  const std::vector<int> ids = tokenizer->encode("a\xF0\x9F\x98\x80!");
  REQUIRE(ids.size() == 6);
  CHECK(streamed(*tokenizer, ids) == std::vector<std::string>{"a", "", "", "", "\xF0\x9F\x98\x80", "!", ""});
}

TEST_CASE("a stream replaces what never becomes a character") {
  const auto tokenizer = test::make_tiny_tokenizer();
  const std::vector<int> smile = tokenizer->encode("\xF0\x9F\x98\x80");
  const int a = tokenizer->encode("a")[0];
  CHECK(streamed(*tokenizer, {smile[0], smile[1], a}) == std::vector<std::string>{"", "", kBad + "a", ""});
  CHECK(streamed(*tokenizer, {a, smile[0]}) == std::vector<std::string>{"a", "", kBad});
}

TEST_CASE("a stream leaves special tokens out") {
  const auto tokenizer = test::make_tiny_tokenizer();
  CHECK(streamed(*tokenizer, tokenizer->encode("hello<|end|>!")) == std::vector<std::string>{"hello", "", "!", ""});
}

}  // namespace
}  // namespace ballast::text
