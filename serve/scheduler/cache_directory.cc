#include "serve/scheduler/cache_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ios>
#include <limits>
#include <random>
#include <system_error>

#include "ballast/error.h"
#include "files/output_file.h"
#include "files/text.h"

namespace ballast::serve {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStateSuffix = ".state";
constexpr std::string_view kTemporarySuffix = ".partial";
constexpr std::size_t kNameBytes = 16;  // of a key: enough that two texts never have the same name
constexpr CacheDirectory::Time kNanoseconds = 1'000'000'000;

/// Returns the time now.
CacheDirectory::Time time_of_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Returns the name that a file of the cache has in the index; nullopt for other files.
std::optional<std::string> cache_name(std::string name) {
  if (!name.ends_with(kStateSuffix)) return std::nullopt;
  name.resize(name.size() - kStateSuffix.size());
  const bool digits =
      std::ranges::all_of(name, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == '-'; });
  if (!digits || name.size() < 2 * kNameBytes) return std::nullopt;
  return name;
}

/// Returns digits that no other process uses: process ids are not enough where containers share a directory.
std::string random_digits() {
  std::random_device random;
  return files::concat(std::hex, random(), random());
}

}  // namespace

CacheDirectory::CacheDirectory(fs::path path, std::uint64_t budget)
    : path_(std::move(path)), budget_(budget), token_(random_digits()) {
  if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) files::throw_file_error(path_, "create", errno);
  check_writable();
  read_files();
  unlink_all(make_room(0, std::numeric_limits<Time>::max()));
}

/// Throws if no file can be created: a directory that is not writable is reported before the model is loaded.
void CacheDirectory::check_writable() {
  const std::byte byte{};
  const std::span<const std::byte> parts[] = {{&byte, 1}};
  const fs::path path = temporary_path();
  files::write_private_file(path, temporary_path(), parts, time_of_clock());
  ::unlink(path.c_str());
}

fs::path CacheDirectory::path_of(const std::string& name) const {
  return path_ / (name + std::string(kStateSuffix));
}

fs::path CacheDirectory::temporary_path() {
  return path_ / files::concat(token_, "-", temporaries_.fetch_add(1), kTemporarySuffix);
}

void CacheDirectory::unlink_all(const std::vector<std::string>& names) const {
  for (const std::string& name : names) ::unlink(path_of(name).c_str());
}

std::string CacheDirectory::name_of(std::span<const std::byte> key) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string name;
  for (const std::byte byte : key.first(kNameBytes)) {
    name += kDigits[std::to_integer<unsigned>(byte) >> 4U];
    name += kDigits[std::to_integer<unsigned>(byte) & 15U];
  }
  return name;
}

/// Replaces the index by the files of the directory. Removes what killed servers left.
void CacheDirectory::read_files() {
  constexpr Time kAbandoned = 600 * kNanoseconds;  // a file is written within seconds
  std::vector<std::pair<std::string, File>> found;
  std::error_code error;
  for (fs::directory_iterator it(path_, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    struct stat status{};
    if (::lstat(it->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    const Time used = status.st_mtim.tv_sec * kNanoseconds + status.st_mtim.tv_nsec;
    std::string name = it->path().filename().string();
    if (name.ends_with(kTemporarySuffix) && used < time_of_clock() - kAbandoned) ::unlink(it->path().c_str());
    if (std::optional<std::string> of_cache = cache_name(std::move(name))) {
      found.emplace_back(*std::move(of_cache), File{.bytes = static_cast<std::uint64_t>(status.st_size), .used = used});
    }
  }
  if (error) throw FileError(path_.string(), "cannot be read: " + error.message());
  // Others wait for the lock only while the index is exchanged.
  std::map<std::string, File, std::less<>> files(found.begin(), found.end());
  std::set<std::pair<Time, std::string>> by_use;
  std::uint64_t bytes = 0;
  Time last = 0;
  for (const auto& [name, file] : found) {
    by_use.emplace(file.used, name);
    bytes += file.bytes;
    last = std::max(last, file.used);
  }
  const std::lock_guard lock(mutex_);
  files_.swap(files);
  by_use_.swap(by_use);
  bytes_ = bytes;
  last_time_ = std::max(last_time_, last);
  read_ = kernels::Clock::now();
}

/// Reads the directory again from time to time, to see the files of other servers.
void CacheDirectory::read_files_again() {
  constexpr std::chrono::seconds kInterval{10};
  {
    const std::lock_guard lock(mutex_);
    if (kernels::Clock::now() - read_ < kInterval) return;
  }
  read_files();
}

void CacheDirectory::insert(const std::string& name, const File& file) {
  erase(name);
  files_.emplace(name, file);
  by_use_.emplace(file.used, name);
  bytes_ += file.bytes;
}

void CacheDirectory::erase(const std::string& name) {
  const auto found = files_.find(name);
  if (found == files_.end()) return;
  bytes_ -= found->second.bytes;
  by_use_.erase({found->second.used, name});
  files_.erase(found);
}

std::uint64_t CacheDirectory::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::size_t CacheDirectory::files() const {
  const std::lock_guard lock(mutex_);
  return files_.size();
}

bool CacheDirectory::contains(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return files_.contains(name);
}

std::vector<std::string> CacheDirectory::names(std::string_view beginning) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> found;
  for (auto it = files_.lower_bound(beginning); it != files_.end() && it->first.starts_with(beginning); ++it) {
    found.push_back(it->first);
  }
  return found;
}

CacheDirectory::Time CacheDirectory::take_times(std::size_t count) {
  const std::lock_guard lock(mutex_);
  const Time first = std::max(time_of_clock(), last_time_ + 1);
  last_time_ = first + static_cast<Time>(count);
  return first;
}

void CacheDirectory::use(const std::string& name, Time time) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(name);
    if (found == files_.end()) return;
    by_use_.erase({found->second.used, name});
    found->second.used = time;
    by_use_.emplace(time, name);
  }
  const timespec stamp = {.tv_sec = time / kNanoseconds, .tv_nsec = time % kNanoseconds};
  const timespec stamps[] = {stamp, stamp};
  // Only the order of removal depends on it.
  (void)::utimensat(AT_FDCWD, path_of(name).c_str(), stamps, AT_SYMLINK_NOFOLLOW);
}

std::optional<files::InputFile> CacheDirectory::open(const std::string& name) {
  std::optional<files::InputFile> file = files::InputFile::open(path_of(name));
  if (!file) forget(name);
  return file;
}

/// Removes the least recently used files from the index, but none that was used after `used`, until there is room for
/// `bytes`, and returns their names.
std::vector<std::string> CacheDirectory::make_room(std::uint64_t bytes, Time used) {
  std::vector<std::string> removed;
  while (bytes_ + writing_ + bytes > budget_ && !by_use_.empty() && by_use_.begin()->first <= used) {
    removed.push_back(by_use_.begin()->second);
    erase(removed.back());
  }
  return removed;
}

bool CacheDirectory::write(const std::string& name, std::uint64_t size,
                           std::span<const std::span<const std::byte>> parts, Time used) {
  read_files_again();
  std::vector<std::string> removed;
  bool room = false;
  {
    const std::lock_guard lock(mutex_);
    removed = make_room(size, used);
    room = bytes_ + writing_ + size <= budget_;
    if (room) writing_ += size;
  }
  unlink_all(removed);
  if (!room) return false;
  struct Written {
    CacheDirectory& directory;
    std::uint64_t size;
    ~Written() {
      const std::lock_guard lock(directory.mutex_);
      directory.writing_ -= size;
    }
  } const written{*this, size};
  files::write_private_file(path_of(name), temporary_path(), parts, used);
  const std::lock_guard lock(mutex_);
  insert(name, {.bytes = size, .used = used});
  return true;
}

void CacheDirectory::remove(const std::string& name) {
  unlink_all({name});
  forget(name);
}

void CacheDirectory::forget(const std::string& name) {
  const std::lock_guard lock(mutex_);
  erase(name);
}

}  // namespace ballast::serve
