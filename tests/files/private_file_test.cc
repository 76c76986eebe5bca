#include "files/private_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "error_message.h"
#include "temporary_directory.h"

namespace ballast::files {
namespace {

using test::Contains;
using test::error_message;

/// Writes spans of the given sizes and returns what they contain together.
std::string write_spans(const std::filesystem::path& path, const std::vector<std::size_t>& sizes) {
  std::string all;
  for (const std::size_t size : sizes) {
    for (std::size_t i = 0; i < size; ++i) all += static_cast<char>('a' + all.size() % 23);
  }
  std::vector<std::span<const std::byte>> parts;
  std::size_t begin = 0;
  for (const std::size_t size : sizes) {
    parts.push_back(std::as_bytes(std::span(all)).subspan(begin, size));
    begin += size;
  }
  write_private_file(path, path.string() + ".partial", parts, 1'700'000'000'123'456'789);
  return all;
}

TEST_CASE("a file has all spans in order, belongs to its owner alone and has the given time") {
  const test::TemporaryDirectory folder;
  const std::filesystem::path path = folder / "file";
  // More spans than one call of the system takes, some of them empty.
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < 3000; ++i) sizes.push_back(i % 5);
  const std::string written = write_spans(path, sizes);
  CHECK(test::read_file(path) == written);
  struct stat status{};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK(status.st_mtim.tv_sec == 1'700'000'000);
  CHECK(status.st_mtim.tv_nsec == 123'456'789);
  CHECK(!std::filesystem::exists(path.string() + ".partial"));
}

TEST_CASE("a file is read into spans, and one that ends too early is an error") {
  const test::TemporaryDirectory folder;
  const std::string all = write_spans(folder / "file", {5000});
  const std::optional<InputFile> file = InputFile::open(folder / "file");
  REQUIRE(file.has_value());
  CHECK(file->size() == 5000);
  std::string read(4000, ' ');
  std::vector<std::span<std::byte>> parts;
  for (std::size_t i = 0; i < 4000; i += 2) parts.push_back(std::as_writable_bytes(std::span(read)).subspan(i, 2));
  file->read_at(900, parts);
  CHECK(read == all.substr(900, 4000));
  CHECK(error_message([&] { file->read_at(1001, parts); }) == Contains("ends too early"));
  std::filesystem::remove(folder / "file");
  file->read_at(0, parts);  // it is still open
  CHECK(read == all.substr(0, 4000));
}

TEST_CASE("a missing file is no error, and what is not a regular file is one") {
  const test::TemporaryDirectory folder;
  CHECK(!InputFile::open(folder / "missing").has_value());
  CHECK(error_message([&] { InputFile::open(folder.path()); }) == Contains("is not a regular file"));
  std::filesystem::create_symlink("/dev/zero", folder / "link");
  CHECK(error_message([&] { InputFile::open(folder / "link"); }) == Contains("cannot open"));
}

TEST_CASE("a file that cannot be written leaves nothing") {
  const test::TemporaryDirectory folder;
  std::filesystem::create_directories(folder / "target" / "full");  // a directory in the way of the rename
  CHECK(error_message([&] { write_spans(folder / "target", {10}); }) == Contains("cannot rename"));
  CHECK(!std::filesystem::exists((folder / "target").string() + ".partial"));
  CHECK(error_message([&] { write_spans(folder / "no" / "file", {10}); }) == Contains("cannot create"));
}

}  // namespace
}  // namespace ballast::files
