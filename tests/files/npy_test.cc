#include "files/npy.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

namespace ballast::files {
namespace {

TEST_CASE("an array is written in NumPy's format 1.0") {
  const std::vector<float> values = {1, -2.5F, 0, 4, 5, 1e-20F};
  const std::string text = npy_text(values, 2, 3);
  REQUIRE(text.size() > 10);
  CHECK(text.substr(0, 8) == std::string("\x93NUMPY\x01\x00", 8));
  const auto low = static_cast<unsigned char>(text[8]);
  const auto high = static_cast<unsigned char>(text[9]);
  const std::size_t begin = 10 + low + 256U * high;
  CHECK(begin % 64 == 0);
  REQUIRE(text.size() == begin + values.size() * sizeof(float));
  CHECK(text.substr(10, begin - 10).starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"));
  CHECK(text[begin - 1] == '\n');
  CHECK(std::memcmp(text.data() + begin, values.data(), values.size() * sizeof(float)) == 0);
}

}  // namespace
}  // namespace ballast::files
