// Files that only their owner can read, written and read in one pass from many spans: entries of caches.
#ifndef BALLAST_FILES_PRIVATE_FILE_H_
#define BALLAST_FILES_PRIVATE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

namespace ballast::files {

/// Nanoseconds since 1970, as a file's modification time.
using FileTime = std::int64_t;

/// Writes `parts` one after the other to `temporary`, gives the file its modification time and renames it to `path`,
/// which may exist. The data is not synced: after a crash of the machine the file may be incomplete, so its reader must
/// check it. Throws FileError, after removing the temporary file.
void write_private_file(const std::filesystem::path& path, const std::filesystem::path& temporary,
                        std::span<const std::span<const std::byte>> parts, FileTime modified);

/// A regular file that is open for reading. It can be read completely when it has been removed meanwhile.
class InputFile {
 public:
  /// Returns nullopt if there is no such file. Throws FileError if it cannot be opened or is not a regular file.
  static std::optional<InputFile> open(std::filesystem::path path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }  ///< when it was opened

  /// Fills `parts` one after the other from `position` on. Throws FileError if the file ends before.
  void read_at(std::uint64_t position, std::span<const std::span<std::byte>> parts) const;

 private:
  InputFile(std::filesystem::path path, int fd);

  std::filesystem::path path_;
  int fd_;
  std::uint64_t size_ = 0;
};

}  // namespace ballast::files

#endif  // BALLAST_FILES_PRIVATE_FILE_H_
