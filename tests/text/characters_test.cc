#include "text/unicode/characters.h"

#include "ballast/text.h"
#include "doctest/doctest.h"

namespace ballast::text {
namespace {

TEST_CASE("width is counted in columns of the terminal, not in bytes") {
  CHECK(display_width("") == 0);
  CHECK(display_width("caf\u00e9 \u00b1") == 6);
  CHECK(display_width("\u6f22\u5b57") == 4);
  CHECK(display_width("e\u0301") == 1);
  CHECK(display_width("a\xffz") == 3);
}

TEST_CASE("a text is cut to columns in whole characters") {
  CHECK(first_columns("caf\u00e9s", 4) == "caf\u00e9");
  CHECK(first_columns("\u6f22\u5b57", 3) == "\u6f22");
  CHECK(first_columns("e\u0301x", 1) == "e\u0301");
  CHECK(first_columns("abc", 5) == "abc");
  CHECK(last_columns("caf\u00e9s", 2) == "\u00e9s");
  CHECK(last_columns("\u6f22\u5b57", 3) == "\u5b57");
  CHECK(last_columns("abc", 5) == "abc");
  CHECK(last_columns("a\xff", 1) == "\xff");
}

}  // namespace
}  // namespace ballast::text
