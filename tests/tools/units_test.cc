#include "tools/units.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>

namespace ballast::tools {
namespace {

TEST_CASE("sizes are in powers of 1000, as the tables of other tools are") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(999) == "999 B");
  CHECK(format_bytes(1000) == "1.00 kB");
  CHECK(format_bytes(271'200'000) == "271.2 MB");
  CHECK(format_bytes(1'490'000'000) == "1.49 GB");
  CHECK(format_bytes(std::numeric_limits<std::uint64_t>::max()) == "18.4 EB");
}

TEST_CASE("a size that rounds up to 1000 is shown in the next unit") {
  CHECK(format_bytes(999'949) == "999.9 kB");
  CHECK(format_bytes(999'950) == "1.00 MB");
  CHECK(format_bytes(9'999) == "10.0 kB");
}

TEST_CASE("durations grow coarser as they grow longer") {
  CHECK(format_duration(0.04) == "0.0 s");
  CHECK(format_duration(9.94) == "9.9 s");
  CHECK(format_duration(9.96) == "10 s");
  CHECK(format_duration(59.6) == "1 m 0 s");
  CHECK(format_duration(80) == "1 m 20 s");
  CHECK(format_duration(7500) == "2 h 5 m");
}

TEST_CASE("figures keep four digits, shares become per cent") {
  CHECK(format_figure(0.0113449) == "0.01134");
  CHECK(format_figure(1.2051e-6) == "1.205e-06");
  CHECK(format_fixed(8.456, 2) == "8.46");
  CHECK(format_percent(0.456) == "45.6 %");
  CHECK(format_percent(1, 0) == "100 %");
}

}  // namespace
}  // namespace ballast::tools
