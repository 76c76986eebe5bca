#include "report/chart/text.h"

#include <doctest/doctest.h>

#include <limits>

namespace ballast::report {
namespace {

TEST_CASE("numbers keep about three digits and group thousands") {
  CHECK(number(23855.2) == "23,855");
  CHECK(number(1234567) == "1,234,567");
  CHECK(number(999.6) == "1,000");
  CHECK(number(151.4) == "151");
  CHECK(number(12.44) == "12.4");
  CHECK(number(1.654) == "1.65");
  CHECK(number(0.3) == "0.30");
  CHECK(number(0.0123) == "0.012");
  CHECK(number(0.000193) == "0.00019");
  CHECK(round_number(0.0001) == "0.0001");
  CHECK(number(3.4e-7) == "3.4e-07");
  CHECK(number(0) == "0");
  CHECK(number(-23855) == "−23,855");
  CHECK(number(3e38) == "3.0e+38");
  CHECK(number(std::numeric_limits<double>::quiet_NaN()) == "–");
  CHECK(number(std::numeric_limits<double>::infinity()) == "–");
  CHECK(count(2040) == "2,040");
}

TEST_CASE("round numbers have no zeros at the end of a fraction") {
  CHECK(round_number(10) == "10");
  CHECK(round_number(0.1) == "0.1");
  CHECK(round_number(100) == "100");
  CHECK(round_number(5000) == "5,000");
  CHECK(round_number(0.002) == "0.002");
}

TEST_CASE("sentences round to two digits") {
  CHECK(rounded(14457) == "14,000");
  CHECK(rounded(1650) == "1,700");
  CHECK(rounded(12.4) == "12.4");
}

TEST_CASE("shares are percentages with a decimal below ten") {
  CHECK(percent(0) == "0 %");
  CHECK(percent(0.013) == "1.3 %");
  CHECK(percent(0.41) == "41 %");
  CHECK(percent(1) == "100 %");
}

TEST_CASE("all characters of a token's text are made visible") {
  CHECK(visible("") == "(empty)");
  CHECK(visible(" The\n") == "␣The\\n");
  CHECK(visible("\t\r") == "\\t\\r");
  CHECK(visible(std::string_view("\0", 1)) == "\\u{0}");
  CHECK(visible("a\u200bb") == "a\\u{200b}b");
  CHECK(visible("\u202e") == "\\u{202e}");  // it would reverse the text after it
  CHECK(visible("é東🙂") == "é東🙂");
  CHECK(printable("my model\n") == "my model\\n");
}

TEST_CASE("bytes that are not UTF-8 are shown as escapes") {
  CHECK(visible("\xff\xfe") == "\\xff\\xfe");
  CHECK(visible("\xe6\x9d") == "\\xe6\\x9d");           // truncated
  CHECK(visible("\xc0\xaf") == "\\xc0\\xaf");           // overlong
  CHECK(visible("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // a surrogate
}

TEST_CASE("markup in text is escaped") {
  CHECK(escape("<b a=\"1\" c='2'>&") == "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;");
}

TEST_CASE("text is cut at whole characters and wide ones count twice") {
  CHECK(shortened("short", 5) == "short");
  CHECK(shortened("longer", 5) == "long…");
  CHECK(shortened("東京", 4) == "東京");
  CHECK(shortened("東京都", 5) == "東京…");
  CHECK(shortened("東京都", 4) == "東…");
  CHECK(shortened("é", 1) == "é");
}

TEST_CASE("lists and ranges are formatted as in a sentence") {
  CHECK(ranges({}) == "");
  CHECK(ranges({7}) == "7");
  CHECK(ranges({3, 4}) == "3 and 4");
  CHECK(ranges({3, 12, 13, 14, 30}) == "3, 12–14 and 30");
  CHECK(listed({"a", "b", "c"}, 3) == "a, b and c");
  CHECK(listed({"a", "b", "c", "d"}, 2) == "a, b and 2 more");
  CHECK(counted(1, "head", "heads") == "1 head");
  CHECK(count_word(2) == "Two");
  CHECK(count_word(12) == "12");
}

TEST_CASE("coordinates are short") {
  CHECK(coordinate(1) == "1");
  CHECK(coordinate(1.5) == "1.5");
  CHECK(coordinate(1.239) == "1.24");
  CHECK(coordinate(-0.001) == "0");
}

}  // namespace
}  // namespace ballast::report
