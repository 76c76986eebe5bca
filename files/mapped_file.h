// A regular file, mapped read-only.
#ifndef BALLAST_FILES_MAPPED_FILE_H_
#define BALLAST_FILES_MAPPED_FILE_H_

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace ballast::files {

/// Owns the map, which holds the size that the file had when it was opened. Safe to read from several threads.
class MappedFile {
 public:
  /// Throws Error naming the file when it cannot be opened or is not a regular file.
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

  /// Throws Error when the file has become shorter than the map.
  void check_whole() const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::span<const std::byte> bytes_;
};

/// Drops the pages of `part` of a map from memory; they come back from the file when touched.
void release_pages(std::span<const std::byte> part);

/// Lets the kernel begin to read the pages of `part` of a map.
void prefetch_pages(std::span<const std::byte> part);

}  // namespace ballast::files

#endif  // BALLAST_FILES_MAPPED_FILE_H_
