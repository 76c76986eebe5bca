#include "tools/terminal/line_input.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include "ballast/error.h"
#include "files/text_file.h"
#include "tools/terminal/interrupt.h"

namespace ballast::tools {
namespace {

// Appends available input; returns false at the end of the input.
bool read_some(std::string& buffer) {
  std::array<char, 4096> bytes;
  ssize_t count = 0;
  do {
    count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) throw Error("standard input", std::strerror(errno));
  buffer.append(bytes.data(), static_cast<std::size_t>(count));
  return count != 0;
}

// poll, unlike read, is not resumed after a signal. The timeout handles a signal that came just before it.
bool wait_for_input() {
  constexpr int kMilliseconds = 200;
  pollfd readable{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  while (pending_interrupt() == 0) {
    if (::poll(&readable, 1, kMilliseconds) > 0) return true;
  }
  return false;
}

}  // namespace

LineInput::Status LineInput::next(std::string& line) {
  while (!take_line(line)) {
    if (ended_) return Status::kEnd;
    if (!wait_for_input()) return Status::kInterrupted;
    ended_ = !read_some(buffer_);
  }
  return Status::kLine;
}

bool LineInput::take_line(std::string& line) {
  const std::size_t newline = buffer_.find('\n');
  if (newline == std::string::npos && (!ended_ || buffer_.empty())) return false;
  line = buffer_.substr(0, newline);
  buffer_.erase(0, newline == std::string::npos ? newline : newline + 1);
  if (line.ends_with('\r')) line.pop_back();
  if (!std::exchange(began_, true)) line = files::with_unix_line_ends(std::move(line));
  return true;
}

std::string read_input() {
  std::string text;
  while (read_some(text)) {
  }
  return files::with_unix_line_ends(std::move(text));
}

}  // namespace ballast::tools
