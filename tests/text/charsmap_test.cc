// The expected results are those of Hugging Face's library.
#include "text/unicode/charsmap.h"

#include <random>
#include <string>

#include "doctest/doctest.h"
#include "error_message.h"
#include "mutated_text.h"
#include "tiny_tokenizer.h"
#include "tiny_vocabularies.h"

namespace ballast::text {
namespace {

using test::Contains;
using test::error_message;

// The map has a ligature, a composition, a line end, an ideograph that becomes two letters, and a character that is
// removed.
std::string tiny_map() {
  return test::charsmap(
      {{"\xEF\xAC\x81", "fi"}, {"e\xCC\x81", "\xC3\xA9"}, {"\r", " "}, {"\xE3\x8E\x8F", "kg"}, {"\xC2\xAD", ""}});
}

std::string normalized(const std::string& text) {
  return Charsmap(tiny_map(), "file: map").normalize(text);
}

TEST_CASE("a compiled map replaces graphemes and characters") {
  CHECK(normalized("e\xEF\xAC\x81 5\xE3\x8E\x8F.") == "efi 5kg.");
  CHECK(normalized("cafe\xCC\x81s") == "caf\xC3\xA9s");
  CHECK(normalized("so\xC2\xAD"
                   "ft") == "soft");
  CHECK(normalized("a\r\nb") == "a b");                                       // one grapheme
  CHECK(normalized("\xEF\xAC\x81\xCC\x81!") == "fi!");                        // one grapheme of 5 bytes
  CHECK(normalized("\xEF\xAC\x81\xCC\x81\xCC\xA7") == "fi\xCC\x81\xCC\xA7");  // of 7: character by character
  CHECK(normalized(std::string("a\0e", 3)) == std::string("a\0e", 3));
  CHECK(normalized("").empty());
}

TEST_CASE("a tokenizer.json's Precompiled normalizer is its map") {
  nlohmann::json tokenizer = test::tiny_tokenizer_json();
  tokenizer["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", test::in_base64(tiny_map())}};
  const auto mapped = test::make_tiny_tokenizer(tokenizer);
  CHECK(mapped->encode("\xEF\xAC\x81") == test::make_tiny_tokenizer()->encode("fi"));
  tokenizer["normalizer"]["precompiled_charsmap"] = "AAA";
  CHECK(error_message([&] { test::make_tiny_tokenizer(tokenizer); }) ==
        Contains("normalizer.precompiled_charsmap: is not base64"));
}

TEST_CASE("maps with contradictory parts are refused") {
  const auto refusal = [](const std::string& bytes) { return error_message([&] { Charsmap(bytes, "file: map"); }); };
  const std::string good = tiny_map();
  CHECK(refusal("") == Contains("file: map: a map of 0 bytes"));
  CHECK(refusal(test::little_endian(8) + "1234") == Contains("cannot hold a trie of 8"));
  CHECK(refusal(test::little_endian(6) + "123456") == Contains("cannot hold a trie of 6"));
  CHECK(refusal(good.substr(0, good.size() - 1)) == Contains("the map's last text does not end"));
  CHECK(refusal(good.substr(0, good.size() - 4) + '\0') == Contains("of its texts"));
  std::string far = good;
  far.replace(4, 4, test::little_endian(0x01FFFC00u));
  CHECK(refusal(far) == Contains("the map's trie leads to unit 32767 of"));
  std::string broken = good;
  broken[good.size() - 2] = '\xFF';
  CHECK(refusal(broken) == Contains("is not UTF-8"));
}

TEST_CASE("damaged maps are read or refused with one line") {
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    const std::string bytes = test::mutated(tiny_map(), random);
    const std::string error =
        error_message([&] { Charsmap(bytes, "file: map").normalize("\xEF\xAC\x81 cafe\xCC\x81 5\xE3\x8E\x8F\r\n"); });
    CHECK((error == "no error" || error.starts_with("file: map: ")));
    CHECK(error.find('\n') == std::string::npos);
  }
}

}  // namespace
}  // namespace ballast::text
