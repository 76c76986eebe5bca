#include "serve/log_writer.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace ballast::serve {
namespace {

TEST_CASE("all lines are written, in their order") {
  std::vector<std::string> written;
  {
    LogWriter log([&](std::string_view line) {
      written.emplace_back(line);
      return true;
    });
    for (int i = 0; i < 1000; ++i) log.add(std::to_string(i));
  }
  REQUIRE(written.size() == 1000);
  for (std::size_t i = 0; i < written.size(); ++i) CHECK(written[i] == std::to_string(i));
}

TEST_CASE("when the log is not read, lines beyond the limit are dropped and counted, and writers do not block") {
  std::atomic<int> asked = 0;
  LogWriter log([&](std::string_view) {
    ++asked;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return false;
  });
  for (std::size_t i = 0; i < LogWriter::kMostLines + 500; ++i) log.add("line");
  CHECK(log.dropped() >= 499);
  CHECK(log.dropped() <= 500);
  log.add(std::string(LogWriter::kMostBytes + 1, 'a'));
  CHECK(log.dropped() >= 500);
}

TEST_CASE("a line that could not be written is written later") {
  std::atomic<bool> open = false;
  std::atomic<std::size_t> written = 0;
  LogWriter log([&](std::string_view line) {
    if (!open) return false;
    written += line.size();
    return true;
  });
  log.add("a");
  log.add("b");
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  open = true;
  while (log.dropped() == 0 && written < 2) std::this_thread::yield();
  CHECK(log.dropped() == 0);
}

TEST_CASE("no lines are kept without a writer thread") {
  LogWriter log(nullptr);
  for (std::size_t i = 0; i < 2 * LogWriter::kMostLines; ++i) log.add("line");
  CHECK(log.dropped() == 0);
}

}  // namespace
}  // namespace ballast::serve
