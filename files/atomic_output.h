// Outputs that appear under their names only when complete.
#ifndef BALLAST_FILES_ATOMIC_OUTPUT_H_
#define BALLAST_FILES_ATOMIC_OUTPUT_H_

#include <filesystem>
#include <string>
#include <string_view>

namespace ballast::files {

/// A directory that appears under its final name only when complete. It is created next to `target` as
/// `.NAME.partial-PID`; commit() renames it (replacing an existing one if `replace`), and the destructor removes it if
/// it was not committed. Leftovers of processes that no longer run are removed when a new one starts.
class AtomicDirectory {
 public:
  /// Throws Error if target exists and not `replace`, or if its parent cannot be written.
  AtomicDirectory(const std::filesystem::path& target, bool replace);
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  const std::filesystem::path& path() const { return temporary_; }
  void commit();

  /// Commits a single file of the directory, which gets the target's name.
  void commit_file(const std::string& name);

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  bool replace_;
  bool committed_ = false;
  int lock_ = -1;  // file descriptor whose lock shows other processes that this one is working
};

/// Checks an output before a long job: throws Error if `target` exists and not `replace`, FileError if its folder does
/// not exist.
void check_output(const std::filesystem::path& target, bool replace);

/// Writes a small file under a temporary name, syncs and renames it. Throws Error naming the file, also if it exists
/// and not `replace`.
void write_file_atomically(const std::filesystem::path& path, std::string_view content, bool replace);

}  // namespace ballast::files

#endif  // BALLAST_FILES_ATOMIC_OUTPUT_H_
