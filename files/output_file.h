// A file that is being written; every failure is reported.
#ifndef BALLAST_FILES_OUTPUT_FILE_H_
#define BALLAST_FILES_OUTPUT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace ballast::files {

/// Every member throws Error naming the file and the system's reason; on a full disk also the required bytes.
class OutputFile {
 public:
  /// Creates the file, which must not exist.
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Allocates the space of the whole file now, if the file system can, so that a full disk is detected before the
  /// work.
  void reserve(std::uint64_t bytes);

  void write_at(std::uint64_t position, std::span<const std::byte> bytes);

  /// Moves `size` bytes at `from` to `to`, a few at a time; the ranges may overlap. The file then ends after them.
  void move_tail(std::uint64_t from, std::uint64_t to, std::uint64_t size);

  /// Waits until the data is on the disk and closes.
  void sync_and_close();

 private:
  void read_at(std::uint64_t position, std::span<std::byte> bytes) const;

  std::filesystem::path path_;
  int fd_;
};

/// Throws FileError "cannot ACTION: the system's reason"; on a full disk with the `needed` bytes. `error` is an errno
/// value.
[[noreturn]] void throw_file_error(const std::filesystem::path& path, std::string_view action, int error,
                                   std::uint64_t needed = 0);

/// Makes a directory's entries durable: only then is a file's creation or renaming on the disk.
void sync_directory(const std::filesystem::path& directory);

}  // namespace ballast::files

#endif  // BALLAST_FILES_OUTPUT_FILE_H_
