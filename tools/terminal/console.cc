#include "tools/terminal/console.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "ballast/error.h"

namespace ballast::tools {
namespace {

bool is_terminal(int descriptor) {
  const char* terminal = std::getenv("TERM");
  return ::isatty(descriptor) == 1 && (terminal == nullptr || std::string_view(terminal) != "dumb");
}

// Returns 0, or the error that stopped it.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      // Another process made the descriptor non-blocking.
      pollfd writable{.fd = descriptor, .events = POLLOUT, .revents = 0};
      ::poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

void prepare_standard_streams() {
  std::signal(SIGPIPE, SIG_IGN);
  // Closed descriptors are opened in the opposite direction, so that using them still fails as before.
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) != -1) continue;
    ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // the lowest free one: `descriptor`
  }
}

void print(std::string_view text) {
  const int error = write_all(STDOUT_FILENO, text);
  if (error == EPIPE) throw OutputClosed();
  if (error != 0) throw Error("standard output", std::strerror(error));
}

void print_message(std::string_view text) {
  write_all(STDERR_FILENO, text);
}

bool print_message_within(std::string_view text, int milliseconds) {
  // A pipe that is ready accepts this many bytes at once.
  constexpr std::size_t kAtOnce = PIPE_BUF;
  bool begun = false;
  while (!text.empty()) {
    pollfd writable{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    if (::poll(&writable, 1, milliseconds) <= 0) return begun;
    const ssize_t written = ::write(STDERR_FILENO, text.data(), std::min(text.size(), kAtOnce));
    if (written < 0 && errno != EAGAIN && errno != EINTR) return true;  // the error cannot be reported anywhere
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
    begun = begun || written > 0;
  }
  return true;
}

bool input_is_terminal() {
  return ::isatty(STDIN_FILENO) == 1;
}

bool output_is_terminal() {
  return is_terminal(STDOUT_FILENO);
}

bool messages_are_on_terminal() {
  return is_terminal(STDERR_FILENO);
}

std::size_t terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace ballast::tools
