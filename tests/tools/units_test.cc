#include "tools/terminal/units.h"

#include <doctest/doctest.h>

namespace ballast::tools {
namespace {

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
