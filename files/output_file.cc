#include "files/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "files/text.h"

namespace ballast::files {
void throw_file_error(const std::filesystem::path& path, std::string_view action, int error, std::uint64_t needed) {
  const std::string reason = std::generic_category().message(error);
  if (needed > 0 && (error == ENOSPC || error == EDQUOT || error == EFBIG)) {
    throw FileError(path.string(), concat("disk full: ", action, " needs ", needed, " bytes (", reason, ")"));
  }
  throw FileError(path.string(), concat("cannot ", action, ": ", reason));
}

OutputFile::OutputFile(std::filesystem::path path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
  if (fd_ < 0) throw_file_error(path_, "create", errno);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

void OutputFile::reserve(std::uint64_t bytes) {
  if (bytes == 0) return;
  int status = 0;
  do {
    status = ::fallocate(fd_, 0, 0, static_cast<off_t>(bytes));
  } while (status != 0 && errno == EINTR);
  if (status != 0 && errno != EOPNOTSUPP && errno != ENOSYS) throw_file_error(path_, "reserve", errno, bytes);
}

void OutputFile::write_at(std::uint64_t position, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(position));
    if (written < 0) {
      if (errno == EINTR) continue;
      throw_file_error(path_, "write", errno, bytes.size());
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    position += static_cast<std::uint64_t>(written);
  }
}

void OutputFile::read_at(std::uint64_t position, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(fd_, bytes.data(), bytes.size(), static_cast<off_t>(position));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw_file_error(path_, "read back", got < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    position += static_cast<std::uint64_t>(got);
  }
}

void OutputFile::move_tail(std::uint64_t from, std::uint64_t to, std::uint64_t size) {
  constexpr std::uint64_t kPiece = std::uint64_t{8} << 20;
  std::vector<std::byte> piece;
  for (std::uint64_t done = 0; done < size; done += piece.size()) {
    piece.resize(std::min(kPiece, size - done));
    // Goes from the end at which the source is not overwritten before it was read.
    const std::uint64_t offset = to > from ? size - done - piece.size() : done;
    read_at(from + offset, piece);
    write_at(to + offset, piece);
  }
  if (::ftruncate(fd_, static_cast<off_t>(to + size)) != 0) throw_file_error(path_, "resize", errno, to + size);
}

void OutputFile::sync_and_close() {
  if (::fsync(fd_) != 0) throw_file_error(path_, "sync", errno);
  if (::close(std::exchange(fd_, -1)) != 0) throw_file_error(path_, "close", errno);
}

void sync_directory(const std::filesystem::path& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw_file_error(directory, "open", errno);
  const int status = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  // Some network file systems cannot sync a directory; they order its changes themselves.
  if (status != 0 && error != EINVAL) throw_file_error(directory, "sync", error);
}

}  // namespace ballast::files
