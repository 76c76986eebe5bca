// What happens when a file is cut off or cannot be read while ballast uses it.
#ifndef BALLAST_MAPPED_FILES_H_
#define BALLAST_MAPPED_FILES_H_

#include <optional>

#include "ballast/error.h"

namespace ballast {

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

#endif  // BALLAST_MAPPED_FILES_H_
