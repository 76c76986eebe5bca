// Outputs that appear under their names when they are complete, or not at all.
#ifndef BALLAST_FILES_ATOMIC_OUTPUT_H_
#define BALLAST_FILES_ATOMIC_OUTPUT_H_

#include <filesystem>
#include <string>
#include <string_view>

namespace ballast::files {

/// A directory that appears under its final name only when complete. Created beside `target` as `.NAME.partial-PID`;
/// commit() moves it there (replacing an existing one when `replace`), the destructor removes what was not committed.
/// Leftovers of processes that no longer run are removed when a new one starts.
class AtomicDirectory {
 public:
  /// Throws Error when target exists and not `replace`, or when its parent cannot be written.
  AtomicDirectory(const std::filesystem::path& target, bool replace);
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  const std::filesystem::path& path() const { return temporary_; }
  void commit();

  /// The same for a single file of the directory, which takes the target's name itself.
  void commit_file(const std::string& name);

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  bool replace_;
  bool committed_ = false;
  int lock_ = -1;  // descriptor whose lock shows other processes that this one is at work
};

/// For before a long job: throws Error when `target` exists and not `replace`, FileError when its folder is none.
void check_output(const std::filesystem::path& target, bool replace);

/// Writes a small file the same way: temporary name, sync, rename. Throws Error naming the file.
/// An existing file is an Error unless `replace`.
void write_file_atomically(const std::filesystem::path& path, std::string_view content, bool replace);

}  // namespace ballast::files

#endif  // BALLAST_FILES_ATOMIC_OUTPUT_H_
