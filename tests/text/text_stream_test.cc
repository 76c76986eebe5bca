#include "text/text_stream.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/error.h"

namespace ballast::text {
namespace {

/// Collects the shown text of a stream, with special tokens in it, and its end.
class Shown {
 public:
  explicit Shown(const std::vector<std::string>& stops, bool show_stop = false) : stream_(stops, show_stop) {}

  std::string push(std::string_view text) { return pushed({std::string(text), ReplyKind::kAnswer}); }
  std::string push_special(std::string_view text) { return pushed({std::string(text), std::nullopt}); }
  std::string finish() {
    std::vector<ReplyPart> parts;
    stream_.finish(parts);
    return text_of(parts);
  }
  bool stopped() const { return stream_.stopped(); }

 private:
  static std::string text_of(const std::vector<ReplyPart>& parts) {
    std::string text;
    for (const ReplyPart& part : parts) text += part.text;
    return text;
  }
  std::string pushed(const ReplyPiece& piece) {
    std::vector<ReplyPart> parts;
    stream_.push(piece, parts);
    return text_of(parts);
  }

  TextStream stream_;
};

std::string stream_in_pieces(const std::vector<std::string>& stops, std::string_view text, std::size_t piece_size) {
  Shown stream(stops);
  std::string shown;
  for (std::size_t i = 0; i < text.size(); i += piece_size) shown += stream.push(text.substr(i, piece_size));
  return shown + stream.finish();
}

TEST_CASE("without stop strings every piece passes at once") {
  Shown stream({});
  CHECK(stream.push("one ") == "one ");
  CHECK(stream.push("two") == "two");
  CHECK(stream.finish() == "");
  CHECK_FALSE(stream.stopped());
}

TEST_CASE("text that may begin a stop string is held back until this is decided") {
  Shown stream({"\nUser:"});
  CHECK(stream.push("Hello\nUs") == "Hello");
  CHECK(stream.push("ual") == "\nUsual");
  CHECK(stream.push("\n") == "");
  CHECK(stream.push("\nUser") == "\n");
  CHECK(stream.finish() == "\nUser");
  CHECK_FALSE(stream.stopped());
}

TEST_CASE("the text ends before the stop string, and nothing comes after it") {
  Shown stream({"END"});
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
      {{"abcd", "bc"}, "xabcd", "xa"},    // the one that is complete first is used
      {{"cd", "bcd", "d"}, "abcd", "a"},  // of those complete at once, the longest is used
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

TEST_CASE("a stop string matches special tokens that are not shown, alone or with text around them") {
  struct Case {
    std::string stop;
    std::string shown;
    bool stopped;
  };
  // a <s> b <s> <end> c
  const std::vector<Case> cases{
      {"<s>", "a", true},       {"<end>", "ab", true},  {"a<s>", "", true},   {"<s>b", "a", true},
      {"b<s><end>", "a", true}, {"<end>c", "ab", true}, {"ab", "", true},     {"bc", "a", true},
      {"s>b", "abc", false},    {"<s", "abc", false},   {"><", "abc", false}, {"<s><s>", "abc", false},
      {"c<s>", "abc", false},
  };
  for (const Case& each : cases) {
    CAPTURE(each.stop);
    Shown stream({each.stop});
    std::string text = stream.push("a");
    text += stream.push_special("<s>");
    text += stream.push("b");
    text += stream.push_special("<s>");
    text += stream.push_special("<end>");
    text += stream.push("c");
    text += stream.finish();
    CHECK(text == each.shown);
    CHECK(stream.stopped() == each.stopped);
  }
}

TEST_CASE("the stop string that is complete first ends the text, special tokens or not") {
  Shown stream({"xy<end>", "y"});
  CHECK(stream.push("x") == "");
  CHECK(stream.push("y") == "x");
  CHECK(stream.stopped());
  Shown other({"<s>", "ab"});
  CHECK(other.push("a") == "");
  CHECK(other.push_special("<s>") == "a");
  CHECK(other.stopped());
}

TEST_CASE("a stop string is shown on request") {
  Shown stream({"END"}, true);
  CHECK(stream.push("abE") == "ab");
  CHECK(stream.push("NDc") == "END");
  CHECK(stream.stopped());
  Shown special({"b<s>"}, true);
  CHECK(special.push("ab") == "a");
  CHECK(special.push_special("<s>") == "b<s>");
}

}  // namespace
}  // namespace ballast::text
