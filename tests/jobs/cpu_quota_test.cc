#include "jobs/cpu_quota.h"

#include <doctest/doctest.h>

namespace ballast::jobs {
namespace {

TEST_CASE("a quota pays for whole processors, and for one at least") {
  CHECK(processors_of_quota("200000 100000") == 2);
  CHECK(processors_of_quota("199999 100000\n") == 1);
  CHECK(processors_of_quota("50000 100000") == 1);
}

TEST_CASE("no quota, and text that is none, limit nothing") {
  CHECK(!processors_of_quota("max 100000"));
  CHECK(!processors_of_quota(""));
  CHECK(!processors_of_quota("100000"));
  CHECK(!processors_of_quota("100000 0"));
}

}  // namespace
}  // namespace ballast::jobs
