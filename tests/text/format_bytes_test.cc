#include <doctest/doctest.h>

#include <cstdint>
#include <limits>

#include "ballast/text.h"

namespace ballast::text {
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

}  // namespace
}  // namespace ballast::text
