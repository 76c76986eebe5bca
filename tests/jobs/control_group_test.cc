#include "jobs/control_group.h"

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

TEST_CASE("the tightest control group above a process limits its memory, not counting files that can be dropped") {
  const test::TemporaryDirectory root;
  CHECK(ControlGroup(root / "none", "a/b").available_memory() == std::numeric_limits<std::uint64_t>::max());
  const ControlGroup group(root / ".", "a/b");
  limit(root / "a", "1000", 700, 500);
  limit(root / "a" / "b", "max", 0, 0);
  CHECK(group.available_memory() == 800);
  limit(root / "a" / "b", "900", 300, 0);
  CHECK(group.available_memory() == 600);
  limit(root / "a" / "b", "200", 300, 0);
  CHECK(group.available_memory() == 0);
}

TEST_CASE("the smallest quota of the control groups above a process limits its processors") {
  const test::TemporaryDirectory root;
  const ControlGroup group(root / ".", "a/b");
  CHECK(!group.processors());
  fs::create_directories(root / "a" / "b");
  test::write_file(root / "a" / "cpu.max", "300000 100000\n");
  test::write_file(root / "a" / "b" / "cpu.max", "max 100000\n");
  CHECK(group.processors() == 3);
  test::write_file(root / "a" / "b" / "cpu.max", "200000 100000\n");
  CHECK(group.processors() == 2);
}

TEST_CASE("a quota counts as whole processors, and at least as one") {
  CHECK(processors_of_quota("200000 100000") == 2);
  CHECK(processors_of_quota("199999 100000\n") == 1);
  CHECK(processors_of_quota("50000 100000") == 1);
}

TEST_CASE("a missing or unreadable quota is no limit") {
  CHECK(!processors_of_quota("max 100000"));
  CHECK(!processors_of_quota(""));
  CHECK(!processors_of_quota("100000"));
  CHECK(!processors_of_quota("100000 0"));
}

}  // namespace
}  // namespace ballast::jobs
