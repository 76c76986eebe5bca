// Lines from standard input, as somebody types them.
#ifndef BALLAST_TOOLS_TERMINAL_LINE_INPUT_H_
#define BALLAST_TOOLS_TERMINAL_LINE_INPUT_H_

#include <string>

namespace ballast::tools {

class LineInput {
 public:
  enum class Status { kLine, kEnd, kInterrupted };

  /// Waits for the next line and puts it into `line` without what ends it, "\n" or "\r\n"; the last one may lack that.
  /// kInterrupted when a signal came that an InterruptGuard held back. Throws Error when reading fails.
  Status next(std::string& line);

 private:
  bool take_line(std::string& line);

  std::string buffer_;
  bool began_ = false;  ///< a line was taken
  bool ended_ = false;
};

/// All of standard input, with lines that end in "\n" (files::with_unix_line_ends).
std::string read_input();

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_TERMINAL_LINE_INPUT_H_
