#include "files/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "files/output_file.h"

namespace ballast::files {
namespace {

// Closes a file and, unless it was kept, removes it.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& path)
      : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {
    if (fd_ < 0) throw_file_error(path, "create", errno);
  }
  ~TemporaryFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!kept_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int descriptor() const { return fd_; }
  int close() { return ::close(std::exchange(fd_, -1)); }
  void keep() { kept_ = true; }

 private:
  const std::filesystem::path& path_;
  int fd_;
  bool kept_ = false;
};

// Passes the parts, a few at a time, to a function that moves some of their bytes: it returns how many, and at most 0
// if it cannot continue. Returns whether all bytes were moved.
template <typename Part, typename Move>
bool move_parts(std::span<const Part> parts, const Move& move) {
  constexpr std::size_t kMost = IOV_MAX;
  std::vector<iovec> vectors;
  for (const Part part : parts) {
    if (!part.empty()) vectors.push_back({const_cast<std::byte*>(part.data()), part.size()});
  }
  std::span<iovec> left(vectors);
  while (!left.empty()) {
    const ssize_t moved = move(left.first(std::min(left.size(), kMost)));
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return false;
    auto bytes = static_cast<std::size_t>(moved);
    while (!left.empty() && bytes >= left.front().iov_len) {
      bytes -= left.front().iov_len;
      left = left.subspan(1);
    }
    if (bytes == 0) continue;
    left.front().iov_base = static_cast<std::byte*>(left.front().iov_base) + bytes;
    left.front().iov_len -= bytes;
  }
  return true;
}

}  // namespace

void write_private_file(const std::filesystem::path& path, const std::filesystem::path& temporary,
                        std::span<const std::span<const std::byte>> parts, FileTime modified) {
  constexpr FileTime kSecond = 1'000'000'000;
  TemporaryFile file(temporary);
  std::uint64_t size = 0;
  for (const auto part : parts) size += part.size();
  const auto write = [&](std::span<const iovec> vectors) {
    return ::writev(file.descriptor(), vectors.data(), static_cast<int>(vectors.size()));
  };
  if (!move_parts(parts, write)) throw_file_error(path, "write", errno, size);
  const timespec time = {.tv_sec = modified / kSecond, .tv_nsec = modified % kSecond};
  const timespec times[] = {time, time};
  if (::futimens(file.descriptor(), times) != 0) throw_file_error(path, "set the time", errno);
  if (file.close() != 0) throw_file_error(path, "close", errno, size);  // some file systems report a full disk here
  if (std::rename(temporary.c_str(), path.c_str()) != 0) throw_file_error(path, "rename", errno);
  file.keep();
}

InputFile::InputFile(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}

std::optional<InputFile> InputFile::open(std::filesystem::path path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return std::nullopt;
  if (fd < 0) throw_file_error(path, "open", errno);
  InputFile file(std::move(path), fd);
  struct stat status{};
  if (::fstat(fd, &status) != 0) throw_file_error(file.path_, "examine", errno);
  if (!S_ISREG(status.st_mode)) throw FileError(file.path_.string(), "is not a regular file");
  file.size_ = static_cast<std::uint64_t>(status.st_size);
  return file;
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

void InputFile::read_at(std::uint64_t position, std::span<const std::span<std::byte>> parts) const {
  errno = 0;
  const auto read = [&](std::span<const iovec> vectors) {
    const ssize_t got = ::preadv(fd_, vectors.data(), static_cast<int>(vectors.size()), static_cast<off_t>(position));
    if (got == 0) errno = 0;  // the end of the file
    position += static_cast<std::uint64_t>(std::max<ssize_t>(got, 0));
    return got;
  };
  if (move_parts(parts, read)) return;
  if (errno == 0) throw FileError(path_.string(), "ends too early");
  throw_file_error(path_, "read", errno);
}

}  // namespace ballast::files
