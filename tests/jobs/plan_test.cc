#include "jobs/plan.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <limits>
#include <string>

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

TEST_CASE("this process' memory and the machine's speed are known") {
  CHECK(resident_memory() > 1000000);
  CHECK(available_memory() > 0);
  CHECK(multiply_adds_per_second(8) > 1e6);
}

}  // namespace
}  // namespace ballast::jobs
