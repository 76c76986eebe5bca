// What ballast throws for bad input and for failing files.
#ifndef BALLAST_ERROR_H_
#define BALLAST_ERROR_H_

#include <cstddef>
#include <optional>
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

/// Turns the loss of a mapped file into an Error. Models are read through maps of their files, and the system ends a
/// process with SIGBUS when it touches a part of a map that the file no longer has (it was cut off) or that the disk
/// does not deliver. After this call, lost parts of ballast's maps read as zeros, and whatever used the file throws a
/// FileError that names it before a result leaves the library.
///
/// Installs a handler of SIGBUS for the whole process, once; further calls do nothing. A signal about any other address
/// goes on to the handler that was there before, or ends the process as it would have. The library never calls this by
/// itself; the ballast program and the Python package do.
void guard_mapped_files();

/// Returns the loss of a file that probably caused the exception that this thread handles, and forgets it: a file that
/// was closed, with some of it lost, while the exception was on its way.
std::optional<FileError> take_lost_file();

}  // namespace ballast

#endif  // BALLAST_ERROR_H_
