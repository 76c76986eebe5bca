// Standard output and standard error, written without buffers so that a failing write is seen where it happens.
#ifndef BALLAST_TOOLS_TERMINAL_CONSOLE_H_
#define BALLAST_TOOLS_TERMINAL_CONSOLE_H_

#include <cstddef>
#include <exception>
#include <string_view>

namespace ballast::tools {

/// Whoever read standard output has gone, which is no failure of the program's: it ends quietly.
class OutputClosed : public std::exception {
 public:
  const char* what() const noexcept override { return "standard output was closed"; }
};

/// To be called first: makes a write to a closed pipe an error instead of a signal, and occupies standard descriptors
/// that the program was started without, lest a file that is opened later receives its messages.
void prepare_standard_streams();

/// Writes to standard output. Throws OutputClosed when its reader has gone, Error when writing fails otherwise.
void print(std::string_view text);

/// Writes to standard error. A failure is ignored: there is nowhere left to tell it.
void print_message(std::string_view text);

/// Writes to standard error what a reader takes within `milliseconds`. Returns false where that is nothing; what was
/// begun is ended, if the reader takes any of it in time.
bool print_message_within(std::string_view text, int milliseconds);

bool input_is_terminal();

/// Whether standard output shows text in several intensities.
bool output_is_terminal();

/// Whether standard error can show a line that is redrawn.
bool messages_are_on_terminal();

/// Columns of the terminal behind standard error; 80 when it does not say.
std::size_t terminal_width();

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_TERMINAL_CONSOLE_H_
