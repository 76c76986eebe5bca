// The exceptions that ballast throws for bad input and for failing files.
#ifndef BALLAST_ERROR_H_
#define BALLAST_ERROR_H_

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ballast {

/// An error outside the program: in a file, an option, or because of a full disk. The message is one line with the
/// context, the problem and, if helpful, a remedy. Bugs are assertions, never an Error. It has one of the types below
/// if a caller can react to it; otherwise the content of a file or an option is wrong.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}

  /// The message is "CONTEXT: PROBLEM", where CONTEXT is a file, "file: tensor" or an option.
  Error(std::string_view context, std::string_view problem)
      : std::runtime_error(std::string(context) + ": " + std::string(problem)), context_size_(context.size()) {}

  /// Returns the beginning of the message; empty if no context was given.
  std::string_view context() const { return std::string_view(what()).substr(0, context_size_); }

 private:
  std::size_t context_size_ = 0;
};

/// An error of the system: a file that is missing or cannot be read or written, a full disk, too little memory, or
/// another process of ballast that writes the same output. Trying again may help.
class FileError : public Error {
 public:
  using Error::Error;
};

/// The input may be valid, but ballast does not support its kind: an architecture, a type, a template.
class UnsupportedError : public Error {
 public:
  using Error::Error;
};

/// Turns the loss of a mapped file into an Error. Models are read through maps of their files, and the system ends a
/// process with SIGBUS when it accesses a part of a map that the file no longer has (it was truncated) or that the disk
/// cannot read. After this call, lost parts of ballast's maps read as zeros, and the function that used the file throws
/// a FileError that names it before it returns a result.
///
/// Installs a handler of SIGBUS for the whole process, once; further calls do nothing. A signal about any other address
/// is passed to the previous handler, or ends the process as before. The library never calls this; the ballast program
/// and the Python package do.
void guard_mapped_files();

/// Returns the loss of a file that probably caused the exception that this thread is handling, and clears it. The file
/// was closed, with a part of it lost, while the exception was thrown.
std::optional<FileError> take_lost_file();

}  // namespace ballast

#endif  // BALLAST_ERROR_H_
