#include "files/mapped_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>

#include "ballast/error.h"
#include "error_message.h"
#include "temporary_directory.h"

namespace ballast::files {
namespace {

using test::Contains;
using test::error_message;

constexpr std::size_t kBytes = 100'000;

std::filesystem::path write_letters(const test::TemporaryDirectory& directory) {
  const std::filesystem::path path = directory / "letters";
  std::ofstream(path) << std::string(kBytes, 'a');
  return path;
}

/// Returns the waitpid status of a process that exits with the result of body(). Signal handlers belong to the whole
/// process: those of other tests stay as they are.
int status_of_process(const std::function<int()>& body) {
  const pid_t process = ::fork();
  if (process == 0) {
    struct sigaction action{};
    action.sa_handler = SIG_DFL;
    ::sigaction(SIGBUS, &action, nullptr);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(process, &status, 0);
  return status;
}

std::size_t letters(const MappedFile& file) {
  std::size_t count = 0;
  for (const char letter : file.text()) count += letter == 'a' ? 1 : 0;
  return count;
}

TEST_CASE("the lost part of a file reads as zeros, and the error names the file") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path path = write_letters(directory);
  const int status = status_of_process([&] {
    guard_mapped_files();
    const MappedFile file(path);
    file.check_whole();
    std::filesystem::resize_file(path, kBytes / 2);
    if (letters(file) != kBytes / 2) return 1;
    const std::string message = error_message([&] { file.check_whole(); });
    if (message.find("letters: was cut off while it was in use: of 100000 bytes it has 50000 left") ==
        std::string::npos)
      return 2;
    // Zeros stay where they were read, so the file is not trusted again when it is back.
    std::ofstream(path) << std::string(kBytes, 'a');
    return error_message([&] { file.check_whole(); }).find("could not be read in part") == std::string::npos ? 3 : 0;
  });
  CHECK(status == 0);
}

TEST_CASE("a file that lost less than a page is detected, too") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path path = write_letters(directory);
  const MappedFile file(path);
  std::filesystem::resize_file(path, kBytes - 1);
  CHECK(error_message([&] { file.check_whole(); }) == Contains("of 100000 bytes it has 99999 left"));
}

TEST_CASE("a lost file is reported once as the cause of an error") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path path = write_letters(directory);
  try {
    const MappedFile file(path);
    std::filesystem::resize_file(path, 10);
    throw Error("a consequence");
  } catch (const Error&) {
    const std::optional<FileError> cause = take_lost_file();
    REQUIRE(cause.has_value());
    CHECK(std::string(cause->what()) == Contains("letters: was cut off"));
  }
  CHECK_FALSE(take_lost_file().has_value());
  {
    const MappedFile file(path);
    std::filesystem::resize_file(path, 5);
  }
  CHECK_FALSE(take_lost_file().has_value());
}

TEST_CASE("faults in maps of other code reach their handler, or end the process") {
  const test::TemporaryDirectory directory;
  const auto touch_other_map = [&] {
    const std::filesystem::path path = write_letters(directory);
    const MappedFile own(path);
    const int descriptor = ::open(path.c_str(), O_RDONLY);
    const auto* bytes =
        static_cast<const volatile char*>(::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE, descriptor, 0));
    std::filesystem::resize_file(path, 0);
    return int{bytes[kBytes / 2]};
  };
  const int with_handler = status_of_process([&] {
    ::signal(SIGBUS, [](int) { ::_exit(42); });
    guard_mapped_files();
    return touch_other_map();
  });
  CHECK(WEXITSTATUS(with_handler) == 42);
  const int without = status_of_process([&] {
    guard_mapped_files();
    return touch_other_map();
  });
  CHECK(WIFSIGNALED(without));
  CHECK(WTERMSIG(without) == SIGBUS);
  const int sent = status_of_process([] {
    guard_mapped_files();
    ::raise(SIGBUS);
    return 0;
  });
  CHECK(WTERMSIG(sent) == SIGBUS);
}

}  // namespace
}  // namespace ballast::files
