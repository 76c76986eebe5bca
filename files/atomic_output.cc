#include "files/atomic_output.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>

#include "ballast/error.h"
#include "files/output_file.h"
#include "files/text.h"

namespace ballast::files {
namespace {

namespace fs = std::filesystem;

// "DIR/NAME/" and a link to a directory refer to the directory itself.
fs::path resolve_target(const fs::path& target) {
  fs::path path = target.lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (!path.has_filename() || path.filename() == "." || path.filename() == "..") {
    throw Error(target.empty() ? "output" : target.string(), "is not a name that an output can have");
  }
  std::error_code unresolvable;
  fs::path canonical = fs::is_symlink(path, unresolvable) ? fs::canonical(path, unresolvable) : path;
  return unresolvable ? path : canonical;
}

bool entry_exists(const fs::path& path) {
  std::error_code ignored;  // what cannot be examined fails when it is written, with its reason
  return fs::exists(fs::symlink_status(path, ignored));
}

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

std::string partial_prefix(const fs::path& target) {
  return "." + target.filename().string() + ".partial-";
}

fs::path partial_path(const fs::path& target) {
  return parent_of(target) / (partial_prefix(target) + std::to_string(::getpid()));
}

bool is_running(pid_t process) {
  return ::kill(process, 0) == 0 || errno != ESRCH;
}

// A directory's lock lives as long as the descriptor, and so as long as its process. Unlike the process id in the name
// it also works when another machine or container shares the folder.
class DirectoryLock {
 public:
  explicit DirectoryLock(const fs::path& directory)
      : fd_(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
        held_elsewhere_(fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {}
  ~DirectoryLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  bool held_elsewhere() const { return held_elsewhere_; }
  int release_descriptor() { return std::exchange(fd_, -1); }

 private:
  int fd_;
  bool held_elsewhere_;
};

// Removes the leftovers of killed processes for this target. Failing to do so is not an error.
void remove_leftovers(const fs::path& target) {
  const std::string prefix = partial_prefix(target);
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent_of(target), ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    pid_t process = 0;
    const char* end = name.data() + name.size();
    const auto [parsed, error] = std::from_chars(name.data() + prefix.size(), end, process);
    if (error != std::errc() || parsed != end || process <= 0) continue;
    if (process != ::getpid() && is_running(process)) continue;
    if (DirectoryLock(entry.path()).held_elsewhere()) continue;
    fs::remove_all(entry.path(), ignored);
  }
}

void sync_file(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw_file_error(path, "open", errno);
  const int status = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  if (status != 0) throw_file_error(path, "sync", error);
}

// A rename may reach the disk before the renamed data, unless that was synced.
void sync_tree(const fs::path& directory) {
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    if (entry.is_symlink()) continue;
    if (entry.is_directory()) {
      sync_tree(entry.path());
    } else {
      sync_file(entry.path());
    }
  }
  sync_directory(directory);
}

bool cannot_rename_that_way(int error) {
  return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP;
}

// Exchanges `complete` and `target`; the old target is then at `complete`.
void exchange(const fs::path& complete, const fs::path& target) {
  if (::renameat2(AT_FDCWD, complete.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) return;
  if (!cannot_rename_that_way(errno)) throw_file_error(target, "be replaced", errno);
  // On a file system without exchange there is no target for a moment, but both directories are complete.
  const fs::path old = complete.string() + ".old";
  fs::rename(target, old);
  if (::rename(complete.c_str(), target.c_str()) != 0) {
    const int error = errno;
    fs::rename(old, target);
    throw_file_error(target, "be replaced", error);
  }
  fs::rename(old, complete);
}

std::string exists_message() {
  return "exists; use --force to replace it, or choose another name";
}

/// Renames a complete file to its final name.
void rename_file(const fs::path& complete, const fs::path& target, bool replace) {
  int status = ::renameat2(AT_FDCWD, complete.c_str(), AT_FDCWD, target.c_str(), replace ? 0 : RENAME_NOREPLACE);
  if (status != 0 && cannot_rename_that_way(errno)) status = ::rename(complete.c_str(), target.c_str());
  if (status != 0 && errno == EEXIST) throw Error(target.string(), exists_message());
  if (status != 0) throw_file_error(target, "be created", errno);
  sync_directory(parent_of(target));
}

}  // namespace

void check_output(const fs::path& target, bool replace) {
  if (!fs::is_directory(parent_of(target))) {
    throw FileError(target.string(), "cannot be written: " + parent_of(target).string() + " is no folder");
  }
  if (!replace && entry_exists(target)) throw Error(target.string(), exists_message());
}

AtomicDirectory::AtomicDirectory(const fs::path& target, bool replace)
    : target_(resolve_target(target)), temporary_(partial_path(target_)), replace_(replace) {
  if (!replace_ && entry_exists(target_)) throw Error(target_.string(), exists_message());
  remove_leftovers(target_);
  std::error_code error;
  if (!fs::create_directory(temporary_, error)) {
    if (!error) throw FileError(target_.string(), "is being written by another process, in " + temporary_.string());
    throw FileError(parent_of(target_).string(), "cannot be written: " + error.message());
  }
  lock_ = DirectoryLock(temporary_).release_descriptor();
}

AtomicDirectory::~AtomicDirectory() {
  std::error_code ignored;  // a destructor cannot report errors; the next run removes the rest
  if (!committed_) fs::remove_all(temporary_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

void AtomicDirectory::commit() {
  try {
    sync_tree(temporary_);
    if (replace_ && entry_exists(target_)) {
      exchange(temporary_, target_);
      sync_directory(parent_of(target_));
      committed_ = true;
      std::error_code ignored;  // the output is complete; the next run removes the rest of the old one
      fs::remove_all(temporary_, ignored);
    } else {
      if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
        const int error = errno;
        if (error == ENOTEMPTY || error == EEXIST || error == ENOTDIR)
          throw FileError(target_.string(), exists_message());
        throw_file_error(target_, "be created", error);
      }
      committed_ = true;
      sync_directory(parent_of(target_));
    }
  } catch (const fs::filesystem_error& error) {
    throw FileError(target_.string(), "cannot be completed: " + error.code().message());
  }
}

void AtomicDirectory::commit_file(const std::string& name) {
  sync_file(temporary_ / name);
  rename_file(temporary_ / name, target_, replace_);
}

void write_file_atomically(const fs::path& path, std::string_view content, bool replace) {
  const fs::path target = resolve_target(path);
  if (std::error_code ignored; fs::is_directory(target, ignored))
    throw Error(target.string(), "is a directory; a file is expected");
  if (!replace && entry_exists(target)) throw Error(target.string(), exists_message());
  remove_leftovers(target);
  const fs::path temporary = partial_path(target);
  struct Cleanup {
    const fs::path& path;
    ~Cleanup() {
      std::error_code ignored;
      fs::remove(path, ignored);
    }
  } cleanup{temporary};
  OutputFile file(temporary);
  file.write_at(0, std::as_bytes(std::span(content)));
  file.sync_and_close();
  rename_file(temporary, target, replace);
}

}  // namespace ballast::files
