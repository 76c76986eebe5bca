// The one exception that ballast throws for bad input and for failing files.
#ifndef BALLAST_ERROR_H_
#define BALLAST_ERROR_H_

#include <stdexcept>
#include <string>
#include <string_view>

namespace ballast {

/// Something outside the program is wrong: a file, an option, a full disk. The message is one line that says
/// where, what is wrong and, where that helps, what to do. Bugs are assertions, never an Error.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}

  /// "PLACE: PROBLEM", where PLACE is a file, "file: tensor" or an option.
  Error(std::string_view context, std::string_view problem)
      : std::runtime_error(std::string(context) + ": " + std::string(problem)) {}
};

}  // namespace ballast

#endif  // BALLAST_ERROR_H_
