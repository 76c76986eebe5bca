#include <doctest/doctest.h>

#include <cstdint>
#include <limits>

#include "ballast/error.h"
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
    CHECK_THROWS_AS(parse_bytes("--sizes", text), Error);
  }
  CHECK_THROWS_WITH(parse_bytes("--sizes", "9x"),
                    "--sizes: '9x' must be a size like 92MB, 1.5GiB or a number of bytes");
}

}  // namespace
}  // namespace ballast::text
