#include "text/text_stream.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "ballast/error.h"

namespace ballast::text {
namespace {

std::string stream_in_pieces(const std::vector<std::string>& stops, std::string_view text, std::size_t piece_size) {
  TextStream stream(stops);
  std::string shown;
  for (std::size_t i = 0; i < text.size(); i += piece_size) shown += stream.push(text.substr(i, piece_size));
  return shown + stream.finish();
}

TEST_CASE("without stop strings every piece passes at once") {
  TextStream stream({});
  CHECK(stream.push("one ") == "one ");
  CHECK(stream.push("two") == "two");
  CHECK(stream.finish() == "");
  CHECK_FALSE(stream.stopped());
}

TEST_CASE("what may begin a stop string is held back until it is decided") {
  TextStream stream({"\nUser:"});
  CHECK(stream.push("Hello\nUs") == "Hello");
  CHECK(stream.push("ual") == "\nUsual");
  CHECK(stream.push("\n") == "");
  CHECK(stream.push("\nUser") == "\n");
  CHECK(stream.finish() == "\nUser");
  CHECK_FALSE(stream.stopped());
}

TEST_CASE("the text ends before the stop string, and nothing comes after it") {
  TextStream stream({"END"});
  CHECK(stream.push("abcE") == "abc");
  CHECK(stream.push("NDdef") == "");
  CHECK(stream.stopped());
  CHECK(stream.push("more") == "");
  CHECK(stream.finish() == "");
}

TEST_CASE("the result does not depend on how the text was cut into pieces") {
  struct Case {
    std::vector<std::string> stops;
    std::string text;
    std::string shown;
  };
  const std::vector<Case> cases{
      {{"abcd", "bc"}, "xabcd", "xa"},    // the one that is complete first
      {{"cd", "bcd", "d"}, "abcd", "a"},  // the longest of those complete at once
      {{"aab"}, "aaaab", "aa"},           // overlaps itself
      {{"abab"}, "abaababab", "aba"},     //
      {{"\xC3\xA9"}, "caf\xC3\xA8 caf\xC3\xA9", "caf\xC3\xA8 caf"},
      {{"zz"}, "z", "z"},
      {{"x"}, "x", ""},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    for (std::size_t size = 1; size <= c.text.size(); ++size) CHECK(stream_in_pieces(c.stops, c.text, size) == c.shown);
  }
}

TEST_CASE("an empty stop string is refused") {
  CHECK_THROWS_AS(TextStream({"a", ""}), Error);
}

}  // namespace
}  // namespace ballast::text
