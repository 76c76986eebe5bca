#include "serve/scheduler/cache_directory.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "error_message.h"
#include "temporary_directory.h"

namespace ballast::serve {
namespace {

using test::Contains;
using test::error_message;
namespace fs = std::filesystem;

/// Returns the name of the file for a number.
std::string state_name(int number) {
  const std::vector<std::byte> key(16, static_cast<std::byte>(number));
  return CacheDirectory::name_of(key);
}

/// Writes a file of 100 bytes. Returns whether it fits.
bool write_state(CacheDirectory& directory, int number, std::optional<CacheDirectory::Time> used = {}) {
  const std::string content(100, static_cast<char>(number));
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(content))};
  return directory.write(state_name(number), content.size(), parts, used.value_or(directory.take_times(1)));
}

std::size_t bytes_in(const fs::path& folder) {
  std::size_t bytes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) bytes += entry.file_size();
  return bytes;
}

TEST_CASE("the files that were not used for longest are removed first, also after a restart") {
  const test::TemporaryDirectory folder;
  {
    CacheDirectory directory(folder / "cache", 450);
    for (const int number : {1, 2, 3, 4}) CHECK(write_state(directory, number));
    directory.use(state_name(1), directory.take_times(1));
    CHECK(write_state(directory, 5));  // in the place of 2
    CHECK(directory.files() == 4);
    CHECK(directory.bytes() == 400);
    CHECK(!directory.contains(state_name(2)));
  }
  CacheDirectory directory(folder / "cache", 450);
  CHECK(directory.files() == 4);
  CHECK(write_state(directory, 6));
  CHECK(!directory.contains(state_name(3)));
  CHECK(write_state(directory, 7));
  CHECK(!directory.contains(state_name(4)));
  CHECK(directory.contains(state_name(1)));
  CHECK(bytes_in(folder / "cache") == 400);
  CHECK(fs::file_size(folder / "cache" / (state_name(1) + ".state")) == 100);
  // A smaller budget.
  const CacheDirectory small(folder / "cache", 150);
  CHECK(small.files() == 1);
  CHECK(small.contains(state_name(7)));
  CHECK(bytes_in(folder / "cache") == 100);
}

TEST_CASE("a file does not take the place of files that were used later, and is refused if it exceeds the budget") {
  const test::TemporaryDirectory folder;
  CacheDirectory directory(folder.path(), 250);
  const CacheDirectory::Time before = directory.take_times(1);
  CHECK(write_state(directory, 1));
  CHECK(write_state(directory, 2));
  CHECK(!write_state(directory, 3, before));
  CHECK(directory.files() == 2);
  CacheDirectory small(folder / "small", 99);
  CHECK(!write_state(small, 1));
  CHECK(fs::is_empty(folder / "small"));
}

TEST_CASE("a directory and its files belong to the user alone") {
  const test::TemporaryDirectory folder;
  CacheDirectory directory(folder / "cache", 1000);
  CHECK(write_state(directory, 1));
  struct stat status{};
  REQUIRE(::stat((folder / "cache").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
  REQUIRE(::stat((folder / "cache" / (state_name(1) + ".state")).c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("files with other names are neither counted nor removed, and what a killed server left is removed") {
  const test::TemporaryDirectory folder;
  const fs::path others[] = {folder / "notes.txt", folder / "abc.state", folder / "new-1.partial",
                             folder / (std::string(32, 'x') + ".state")};
  for (const fs::path& other : others) test::write_file(other, std::string(5000, 'x'));
  const fs::path left = test::write_file(folder / "old-1.partial", "x");
  fs::last_write_time(left, fs::file_time_type::clock::now() - std::chrono::hours(1));
  CacheDirectory directory(folder.path(), 150);
  CHECK(write_state(directory, 1));
  CHECK(write_state(directory, 2));
  CHECK(directory.files() == 1);
  CHECK(directory.bytes() == 100);
  for (const fs::path& other : others) CHECK(fs::exists(other));
  CHECK(!fs::exists(left));
}

TEST_CASE("two servers share a directory: a file that one has removed is not found by the other") {
  const test::TemporaryDirectory folder;
  CacheDirectory one(folder.path(), 1000);
  CHECK(write_state(one, 1));
  CacheDirectory other(folder.path(), 1000);
  CHECK(other.contains(state_name(1)));
  CHECK(other.open(state_name(1)).has_value());
  one.remove(state_name(1));
  CHECK(!other.open(state_name(1)).has_value());
  CHECK(!other.contains(state_name(1)));
  CHECK(other.bytes() == 0);
  // Both write the same file.
  CHECK(write_state(one, 2));
  CHECK(write_state(other, 2));
  CHECK(bytes_in(folder.path()) == 100);
}

TEST_CASE("a directory that cannot be created or written is an error that names it") {
  const test::TemporaryDirectory folder;
  test::write_file(folder / "file", "x");
  CHECK(error_message([&] { CacheDirectory(folder / "file", 1000); }) == Contains((folder / "file").string()));
  CHECK(error_message([&] { CacheDirectory(folder / "no" / "cache", 1000); }) == Contains("cannot create"));
  CHECK(error_message([&] { CacheDirectory("/proc", 1000); }) == Contains("/proc"));
}

TEST_CASE("names are found by their beginning") {
  const test::TemporaryDirectory folder;
  CacheDirectory directory(folder.path(), 1000);
  const std::string content = "x";
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(content))};
  for (const char* end : {"-07-aa", "-1f-bb", ""}) {
    CHECK(directory.write(state_name(3) + end, 1, parts, directory.take_times(1)));
  }
  CHECK(write_state(directory, 4));
  CHECK(directory.names(state_name(3) + "-") ==
        std::vector<std::string>{state_name(3) + "-07-aa", state_name(3) + "-1f-bb"});
  CHECK(CacheDirectory(folder.path(), 1000).names(state_name(3) + "-").size() == 2);
}

}  // namespace
}  // namespace ballast::serve
