// Handling of Ctrl-C and `kill`.
#ifndef BALLAST_TOOLS_TERMINAL_INTERRUPT_H_
#define BALLAST_TOOLS_TERMINAL_INTERRUPT_H_

#include <exception>

namespace ballast::tools {

/// Unwinds an interrupted job, so that it removes its partial output.
class Interrupted : public std::exception {
 public:
  explicit Interrupted(int signal) : signal_(signal) {}
  const char* what() const noexcept override { return "interrupted"; }
  int exit_code() const { return 128 + signal_; }

 private:
  int signal_;
};

/// From now on SIGINT, SIGTERM and SIGHUP end the program with one line and the exit code 128 + signal: at once, except
/// while an InterruptGuard exists. A signal that the program was started to ignore (nohup) stays ignored.
void handle_interrupts();

/// While one exists, the first signal is only recorded; a second one ends the program at once. There is at most one at
/// a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

/// Returns the signal that an InterruptGuard recorded, 0 if there was none.
int pending_interrupt();

/// Treats the next signal as the first again.
void forget_interrupt();

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_TERMINAL_INTERRUPT_H_
