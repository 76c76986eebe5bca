#include "tools/terminal/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string_view>

#include "ballast/ranks.h"
#include "tools/terminal/console.h"

namespace ballast::tools {
namespace {

// A signal handler may use only lock-free atomics.
std::atomic<int> pending = 0;
std::atomic<bool> guarded = false;
std::atomic<bool> after_echo = false;
std::atomic<bool> silent = false;  // the launcher of several ranks reports the signals that it sends
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void on_signal(int signal) {
  int none = 0;
  if (guarded && pending.compare_exchange_strong(none, signal)) return;
  if (silent) ::_exit(128 + signal);
  constexpr std::string_view kMessage = "\nballast: interrupted\n";
  // A terminal has echoed ^C or shows a progress bar, so the message begins on a new line.
  const std::string_view message = kMessage.substr(after_echo ? 0 : 1);
  if (::write(STDERR_FILENO, message.data(), message.size()) < 0) ::_exit(128 + signal);
  ::_exit(128 + signal);
}

}  // namespace

void handle_interrupts() {
  after_echo = messages_are_on_terminal();
  silent = launched_ranks() > 1;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action{};
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);
  }
}

InterruptGuard::InterruptGuard() {
  pending = 0;
  guarded = true;
}

InterruptGuard::~InterruptGuard() {
  guarded = false;
}

int pending_interrupt() {
  return pending;
}

void forget_interrupt() {
  pending = 0;
}

}  // namespace ballast::tools
