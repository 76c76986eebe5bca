#include "tools/terminal/units.h"

#include <doctest/doctest.h>

#include <cstdint>

#include "tools/flags/option_checks.h"

namespace ballast::tools {
namespace {

TEST_CASE("a size is parsed in units of 1000 or 1024, or in bytes") {
  CHECK(parse_bytes("--sizes", "92MB") == 92'000'000);
  CHECK(parse_bytes("--sizes", "105.5 mb") == 105'500'000);
  CHECK(parse_bytes("--sizes", "1.5GiB") == 1'610'612'736);
  CHECK(parse_bytes("--sizes", "3kB") == 3000);
  CHECK(parse_bytes("--sizes", "96000000") == 96'000'000);
  CHECK(parse_bytes("--sizes", "17 B") == 17);
  CHECK(parse_bytes("--sizes", "0.0921 TB") == 92'100'000'000);
}

TEST_CASE("an invalid size is refused with the option's name") {
  for (const char* text :
       {"", "MB", "92 XB", "92M", "-1MB", "0", "nan", "inf", "1e3", "92MBs", "99999999 TB", "9MB2"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_bytes("--sizes", text), UsageError);
  }
  CHECK_THROWS_WITH(parse_bytes("--sizes", "9x"),
                    "--sizes: '9x' must be a size like 92MB, 1.5GiB or a number of bytes");
}

TEST_CASE("longer durations are shown in coarser units") {
  CHECK(format_duration(0.04) == "0.0 s");
  CHECK(format_duration(9.94) == "9.9 s");
  CHECK(format_duration(9.96) == "10 s");
  CHECK(format_duration(59.6) == "1 m 0 s");
  CHECK(format_duration(80) == "1 m 20 s");
  CHECK(format_duration(7500) == "2 h 5 m");
}

TEST_CASE("figures keep four digits, and shares become percentages") {
  CHECK(format_figure(0.0113449) == "0.01134");
  CHECK(format_figure(1.2051e-6) == "1.205e-06");
  CHECK(format_fixed(8.456, 2) == "8.46");
  CHECK(format_percent(0.456) == "45.6 %");
  CHECK(format_percent(1, 0) == "100 %");
}

}  // namespace
}  // namespace ballast::tools
