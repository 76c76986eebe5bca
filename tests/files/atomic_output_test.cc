#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iterator>
#include <string>

#include "error_message.h"
#include "files/atomic_output.h"
#include "temporary_directory.h"

namespace ballast::files {
namespace {

namespace fs = std::filesystem;
using test::Contains;
using test::error_message;
using test::read_file;
using test::write_file;

std::size_t entries(const fs::path& directory) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory), {}));
}

void write_output(const fs::path& target, bool replace, const std::string& content) {
  AtomicDirectory output(target, replace);
  write_file(output.path() / "first", content);
  fs::create_directory(output.path() / "inner");
  write_file(output.path() / "inner/second", content);
  output.commit();
}

TEST_CASE("an output appears under its name when committed and not before") {
  const test::TemporaryDirectory parent;
  {
    AtomicDirectory output(parent / "out", false);
    write_file(output.path() / "f", "x");
    CHECK(!fs::exists(parent / "out"));
    output.commit();
    CHECK(read_file(parent / "out/f") == "x");
  }
  CHECK(entries(parent.path()) == 1);
}

TEST_CASE("an output that is not committed leaves no files") {
  const test::TemporaryDirectory parent;
  {
    AtomicDirectory output(parent / "out", false);
    write_file(output.path() / "f", "x");
  }
  CHECK(entries(parent.path()) == 0);
}

TEST_CASE("an existing output is kept unless replacement is requested") {
  const test::TemporaryDirectory parent;
  write_output(parent / "out", false, "old");
  CHECK(error_message([&] { AtomicDirectory(parent / "out", false); }) ==
        Contains("out: exists; use --force to replace it"));
  {
    AtomicDirectory abandoned(parent / "out", true);
    write_file(abandoned.path() / "f", "x");
  }
  CHECK(read_file(parent / "out/first") == "old");
  write_output(fs::path((parent / "out").string() + "/"), true, "new");
  CHECK(read_file(parent / "out/inner/second") == "new");
  CHECK(entries(parent.path()) == 1);
}

TEST_CASE("an output that appears meanwhile is not overwritten") {
  const test::TemporaryDirectory parent;
  AtomicDirectory output(parent / "out", false);
  write_file(parent / "out", "precious");
  CHECK(error_message([&] { output.commit(); }) == Contains("out: exists"));
  CHECK(read_file(parent / "out") == "precious");
}

TEST_CASE("a link to an output still leads to it after it was replaced") {
  const test::TemporaryDirectory parent;
  write_output(parent / "real", false, "old");
  fs::create_directory_symlink(parent / "real", parent / "link");
  write_output(parent / "link", true, "new");
  CHECK(fs::is_symlink(parent / "link"));
  CHECK(read_file(parent / "real/first") == "new");
}

TEST_CASE("names that cannot be an output are refused") {
  const test::TemporaryDirectory parent;
  for (const char* name : {"", "/", ".", "..", "x/.."}) {
    CHECK(error_message([&] { AtomicDirectory(name, true); }) == Contains("is not a name that an output can have"));
  }
  CHECK(error_message([&] { AtomicDirectory(parent / "none/out", false); }) ==
        Contains("none: cannot be written: No such file"));
}

TEST_CASE("two writers of one output do not share a temporary directory") {
  const test::TemporaryDirectory parent;
  AtomicDirectory first(parent / "out", false);
  write_file(first.path() / "f", "x");
  CHECK(error_message([&] { AtomicDirectory(parent / "out", false); }) ==
        Contains("is being written by another process"));
  CHECK(read_file(first.path() / "f") == "x");
}

pid_t process_that_ended() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

TEST_CASE("leftovers of processes that ended are removed, those of others are not") {
  const test::TemporaryDirectory parent;
  const std::string dead = ".out.partial-" + std::to_string(process_that_ended());
  const std::string alive = ".out.partial-" + std::to_string(::getppid());
  for (const std::string& name :
       {dead, alive, std::string(".out.partial-x"), ".other.partial-" + std::to_string(process_that_ended())}) {
    fs::create_directory(parent / name);
    write_file(parent / name / "f", "x");
  }
  write_output(parent / "out", false, "new");
  CHECK(!fs::exists(parent / dead));
  CHECK(fs::exists(parent / alive / "f"));
  CHECK(entries(parent.path()) == 4);
}

TEST_CASE("a process killed at any moment leaves a complete output under the name") {
  const test::TemporaryDirectory parent;
  write_output(parent / "out", false, "0");
  for (int round = 0; round < 25; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = 0;; ++i) write_output(parent / "out", true, std::to_string(i));
    }
    ::usleep(static_cast<useconds_t>(1000 + 1700 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::string content = read_file(parent / "out/first");
    CHECK(!content.empty());
    CHECK(read_file(parent / "out/inner/second") == content);
  }
  write_output(parent / "out", true, "last");
  CHECK(entries(parent.path()) == 1);
}

TEST_CASE("a small file is written completely or not at all") {
  const test::TemporaryDirectory parent;
  write_file_atomically(parent / "f", "one", false);
  CHECK(read_file(parent / "f") == "one");
  CHECK(error_message([&] { write_file_atomically(parent / "f", "two", false); }) == Contains("f: exists"));
  CHECK(read_file(parent / "f") == "one");
  write_file_atomically(parent / "f", "two", true);
  CHECK(read_file(parent / "f") == "two");
  CHECK(error_message([&] { write_file_atomically(parent.path(), "x", true); }) ==
        Contains("is a directory; a file is expected"));
  CHECK(error_message([&] { write_file_atomically(parent / "none/f", "x", false); }) == Contains("No such file"));
  CHECK(entries(parent.path()) == 1);
}

}  // namespace
}  // namespace ballast::files
