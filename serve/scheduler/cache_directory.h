// The directory of a cache: files by name, the least recently used of which are removed to stay below a budget.
#ifndef BALLAST_SERVE_SCHEDULER_CACHE_DIRECTORY_H_
#define BALLAST_SERVE_SCHEDULER_CACHE_DIRECTORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/private_file.h"
#include "kernels/clock.h"

namespace ballast::serve {

/// An index of the directory's files in memory. Several servers, and several caches of a server, may use one directory:
/// files appear complete, under names that determine their contents, and a file that another process has removed is not
/// found. The time of a file's last use is its modification time, which a next server reads. Only files with names of
/// the cache are counted and removed. Thread-safe.
class CacheDirectory {
 public:
  using Time = files::FileTime;

  /// Creates the directory if there is none, and reads its files. Throws Error if it cannot be read or written.
  CacheDirectory(std::filesystem::path path, std::uint64_t budget);
  CacheDirectory(const CacheDirectory&) = delete;
  CacheDirectory& operator=(const CacheDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t budget() const { return budget_; }

  /// Returns the bytes and the number of the cache's files.
  std::uint64_t bytes() const;
  std::size_t files() const;

  bool contains(const std::string& name) const;

  /// Returns the names that begin with `beginning`, sorted.
  std::vector<std::string> names(std::string_view beginning) const;

  /// Returns the first of `count` successive times of use, later than all that were returned before. Files that are
  /// used together get different ones, so that those of the end of a text are removed before those of its beginning.
  Time take_times(std::size_t count);

  /// Sets the time of a file's last use, if it exists.
  void use(const std::string& name, Time time);

  /// Opens a file. Returns nullopt if another process has removed it. Throws FileError.
  std::optional<files::InputFile> open(const std::string& name);

  /// Writes a file after removing others if necessary. Returns false if it does not fit the budget beside files that
  /// were used later. Throws FileError, for example for a full disk.
  bool write(const std::string& name, std::uint64_t size, std::span<const std::span<const std::byte>> parts, Time used);

  /// Removes a file.
  void remove(const std::string& name);

  /// Removes a file from the index until the directory is read again.
  void forget(const std::string& name);

  /// Returns the name for a key of 16 bytes or more, 32 hexadecimal digits. Names may have several such parts, and
  /// numbers, joined by '-'.
  static std::string name_of(std::span<const std::byte> key);

 private:
  struct File {
    std::uint64_t bytes = 0;
    Time used = 0;
  };

  void check_writable();
  void read_files();
  void read_files_again();
  void insert(const std::string& name, const File& file);
  void erase(const std::string& name);
  std::vector<std::string> make_room(std::uint64_t bytes, Time used);
  std::filesystem::path path_of(const std::string& name) const;
  std::filesystem::path temporary_path();
  void unlink_all(const std::vector<std::string>& names) const;

  const std::filesystem::path path_;
  const std::uint64_t budget_;
  const std::string token_;  ///< in the names of this object's temporary files
  std::atomic<std::uint64_t> temporaries_ = 0;

  mutable std::mutex mutex_;
  std::map<std::string, File, std::less<>> files_;
  std::set<std::pair<Time, std::string>> by_use_;
  std::uint64_t bytes_ = 0;    ///< of files_
  std::uint64_t writing_ = 0;  ///< bytes of files that are being written
  Time last_time_ = 0;
  kernels::Clock::time_point read_{};  ///< when the directory was read
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SCHEDULER_CACHE_DIRECTORY_H_
