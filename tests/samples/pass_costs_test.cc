#include "samples/pass_costs.h"

#include <doctest/doctest.h>

namespace ballast::samples {
namespace {

TEST_CASE("the machine's speed lies between an emulator's and a thousand cores'") {
  const double speed = multiply_adds_per_second(8);
  CHECK(speed > 1e6);
  CHECK(speed < 1e15);
}

}  // namespace
}  // namespace ballast::samples
