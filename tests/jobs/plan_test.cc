#include "jobs/plan.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "temporary_directory.h"

namespace ballast::jobs {
namespace {

namespace fs = std::filesystem;

void limit(const fs::path& group, const std::string& most, std::size_t used, std::size_t files) {
  fs::create_directories(group);
  test::write_file(group / "memory.max", most + "\n");
  test::write_file(group / "memory.current", std::to_string(used) + "\n");
  test::write_file(group / "memory.stat", "anon 5\nfile " + std::to_string(files) + "\n");
}

TEST_CASE("the tightest control group above a process limits its memory, files that can be dropped left out") {
  const test::TemporaryDirectory root;
  CHECK(group_memory(root / "none", "a/b") == std::numeric_limits<std::uint64_t>::max());
  limit(root / "a", "1000", 700, 500);
  limit(root / "a" / "b", "max", 0, 0);
  CHECK(group_memory(root / ".", "a/b") == 800);
  limit(root / "a" / "b", "900", 300, 0);
  CHECK(group_memory(root / ".", "a/b") == 600);
  limit(root / "a" / "b", "200", 300, 0);
  CHECK(group_memory(root / ".", "a/b") == 0);
}

TEST_CASE("the memory of this process grows by what it touches") {
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

TEST_CASE("the machine's speed lies between an emulator's and a thousand cores'") {
  const double speed = multiply_adds_per_second(8);
  CHECK(speed > 1e6);
  CHECK(speed < 1e15);
}

}  // namespace
}  // namespace ballast::jobs
