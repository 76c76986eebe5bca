#include "jobs/plan.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "error_message.h"
#include "jobs/memory.h"

namespace ballast::jobs {
namespace {

using test::Contains;

TEST_CASE("the memory of this process grows by the pages that it touches") {
  constexpr std::size_t kTouched = std::size_t{64} << 20;
  const std::uint64_t before = resident_memory();
  const std::vector<char> touched(kTouched, 1);
  const std::uint64_t grown = resident_memory() - before;
  CHECK(touched[kTouched / 2] == 1);
  CHECK(grown > kTouched * 9 / 10);
  CHECK(grown < kTouched * 3 / 2);
}

TEST_CASE("a process may take no more memory than the machine has") {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  const std::uint64_t machine = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  CHECK(available_memory() > 0);
  CHECK(available_memory() < machine);
}

TEST_CASE("a job that fits is planned, and one that does not is refused with the largest number of samples that fits") {
  const PlannedSamples job{.samples = 1000, .length = 512, .ranks = 2};
  const JobPlan plan = plan_memory(job, [](std::size_t own) { return own; }, 500);
  CHECK(plan.memory_bytes == 500);
  CHECK(plan.available_bytes > plan.memory_bytes);

  // 301 samples of one rank are too many, so that 600 samples of both ranks together fit.
  const auto memory = [](std::size_t own) { return own > 300 ? ~std::uint64_t{0} : own; };
  const auto refusal = [&](const auto& needed) { return test::error_message([&] { plan_memory(job, needed, 500); }); };
  CHECK(refusal(memory) == Contains("memory: 1000 samples of 512 tokens take "));
  CHECK(refusal(memory) == Contains("--samples 600 would fit"));
  CHECK(refusal([](std::size_t /*own*/) { return ~std::uint64_t{0}; }) == Contains("no number of samples fits"));
}

}  // namespace
}  // namespace ballast::jobs
