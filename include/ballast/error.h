// What ballast throws for bad input and for failing files.
#ifndef BALLAST_ERROR_H_
#define BALLAST_ERROR_H_

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ballast {

/// Something outside the program is wrong: a file, an option, a full disk. The message is one line that says
/// where, what is wrong and, where that helps, what to do. Bugs are assertions, never an Error. Of the kinds below
/// where a caller might act on it; else the content of a file or an option is wrong.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}

  /// "CONTEXT: PROBLEM", where CONTEXT is a file, "file: tensor" or an option.
  Error(std::string_view context, std::string_view problem)
      : std::runtime_error(std::string(context) + ": " + std::string(problem)), context_size_(context.size()) {}

  /// What the message begins with; empty where nothing was named.
  std::string_view context() const { return std::string_view(what()).substr(0, context_size_); }

 private:
  std::size_t context_size_ = 0;
};

/// The system refused: a file that is not there or cannot be read or written, a full disk, too little memory, another
/// ballast at work on the same output. Trying again may help.
class FileError : public Error {
 public:
  using Error::Error;
};

/// The input may well be sound, but it is of a kind that ballast does not read: an architecture, a type, a template.
class UnsupportedError : public Error {
 public:
  using Error::Error;
};

}  // namespace ballast

#endif  // BALLAST_ERROR_H_
