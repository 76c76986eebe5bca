// Standard output and standard error, written without buffers so that a failing write is noticed at once.
#ifndef BALLAST_TOOLS_TERMINAL_CONSOLE_H_
#define BALLAST_TOOLS_TERMINAL_CONSOLE_H_

#include <cstddef>
#include <exception>
#include <string_view>

namespace ballast::tools {

/// Is thrown when the reader of standard output has closed it. This is not a failure: the program ends without a
/// message.
class OutputClosed : public std::exception {
 public:
  const char* what() const noexcept override { return "standard output was closed"; }
};

/// Must be called first: makes a write to a closed pipe an error instead of a signal, and opens missing standard
/// descriptors, so that a file that is opened later does not receive messages.
void prepare_standard_streams();

/// Writes to standard output. Throws OutputClosed if its reader has closed it, Error if writing fails otherwise.
void print(std::string_view text);

/// Writes to standard error. A failure is ignored, because it cannot be reported anywhere.
void print_message(std::string_view text);

/// Writes to standard error what a reader accepts within `milliseconds`. Returns false if that is nothing; text that
/// was begun is completed if the reader accepts any of it in time.
bool print_message_within(std::string_view text, int milliseconds);

bool input_is_terminal();

/// Returns whether standard output shows text in several intensities.
bool output_is_terminal();

/// Returns whether standard error can show a line that is redrawn.
bool messages_are_on_terminal();

/// Returns the columns of the terminal of standard error; 80 if unknown.
std::size_t terminal_width();

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_TERMINAL_CONSOLE_H_
