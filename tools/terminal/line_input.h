// Lines from standard input, as typed by a user.
#ifndef BALLAST_TOOLS_TERMINAL_LINE_INPUT_H_
#define BALLAST_TOOLS_TERMINAL_LINE_INPUT_H_

#include <string>

namespace ballast::tools {

class LineInput {
 public:
  enum class Status { kLine, kEnd, kInterrupted };

  /// Waits for the next line and stores it in `line` without "\n" or "\r\n"; the last one may have neither. Returns
  /// kInterrupted after a signal that an InterruptGuard recorded. Throws Error if reading fails.
  Status next(std::string& line);

 private:
  bool take_line(std::string& line);

  std::string buffer_;
  bool began_ = false;  ///< a line was taken
  bool ended_ = false;
};

/// Returns all of standard input, with lines that end in "\n" (files::with_unix_line_ends).
std::string read_input();

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_TERMINAL_LINE_INPUT_H_
