// A regular file, mapped read-only.
#ifndef BALLAST_FILES_MAPPED_FILE_H_
#define BALLAST_FILES_MAPPED_FILE_H_

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "files/guard/map_guard.h"

namespace ballast::files {

/// Owns the map, whose size is that of the file when it was opened. Safe to read from several threads.
class MappedFile {
 public:
  /// Throws Error naming the file if it cannot be opened or is not a regular file.
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

  /// Throws FileError if the file has become shorter than the map, or if a part of it could not be read.
  void check_whole() const;

 private:
  /// Returns the problem with the file, if there is one.
  std::optional<std::string> loss() const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::span<const std::byte> bytes_;
  GuardedMap guard_;
};

/// Returns a copy of a small file. Throws like MappedFile, and if the file is truncated meanwhile.
std::string read_whole_file(const std::filesystem::path& path);

/// Drops the pages of `part` of a map from memory; they are read from the file again when accessed.
void release_pages(std::span<const std::byte> part);

/// Asks the kernel to read the pages of `part` of a map ahead.
void prefetch_pages(std::span<const std::byte> part);

}  // namespace ballast::files

#endif  // BALLAST_FILES_MAPPED_FILE_H_
