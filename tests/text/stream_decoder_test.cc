#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "text/tokenizer.h"
#include "tiny_tokenizer.h"

namespace ballast::text {
namespace {

const std::string kBad = "\xEF\xBF\xBD";

std::vector<std::string> streamed(const Tokenizer& tokenizer, const std::vector<int>& ids) {
  StreamDecoder decoder(tokenizer);
  std::vector<std::string> texts;
  for (const int id : ids) texts.push_back(decoder.push(id));
  texts.push_back(decoder.finish());
  return texts;
}

TEST_CASE("a stream returns a character only after all its bytes") {
  const auto tokenizer = test::make_tiny_tokenizer();
  const std::vector<int> ids = tokenizer->encode("a\xF0\x9F\x98\x80!");
  REQUIRE(ids.size() == 6);
  CHECK(streamed(*tokenizer, ids) == std::vector<std::string>{"a", "", "", "", "\xF0\x9F\x98\x80", "!", ""});
}

TEST_CASE("a stream replaces bytes that never become a character") {
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

TEST_CASE("special tokens are shown on request") {
  const auto tokenizer = test::make_tiny_tokenizer();
  int special = 0;
  while (!tokenizer->is_special(special)) ++special;
  StreamDecoder hides(*tokenizer);
  CHECK(hides.push(special).empty());
  StreamDecoder shows(*tokenizer, StreamDecoder::Begin::kOfText, true);
  CHECK(shows.push(special) == tokenizer->token_bytes(special));
}

}  // namespace
}  // namespace ballast::text
