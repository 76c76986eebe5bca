#include "files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "ballast/error.h"

namespace ballast::files {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int take() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

[[noreturn]] void throw_errno(const std::filesystem::path& path, const std::string& what) {
  throw FileError(path.string(), what + ": " + std::generic_category().message(errno));
}

}  // namespace

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer before fstat can refuse it.
  Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) throw_errno(path_, "cannot be opened");
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) throw_errno(path_, "cannot be examined");
  if (S_ISDIR(info.st_mode)) throw FileError(path_.string(), "is a directory; a file is expected");
  if (!S_ISREG(info.st_mode)) throw FileError(path_.string(), "is not a regular file");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return;  // an empty range cannot be mapped
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) throw_errno(path_, "cannot be mapped");
  bytes_ = {static_cast<const std::byte*>(address), size};
  guard_ = GuardedMap(bytes_, file.get());
  descriptor_ = file.take();
}

MappedFile::~MappedFile() {
  if (descriptor_ >= 0 && std::uncaught_exceptions() > 0) {
    if (std::optional<std::string> problem = loss()) note_lost_file(path_.string(), *std::move(problem));
  }
  guard_ = GuardedMap();
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(std::exchange(other.bytes_, {})),
      guard_(std::move(other.guard_)) {}

void MappedFile::check_whole() const {
  if (const std::optional<std::string> problem = loss()) throw FileError(path_.string(), *problem);
}

std::optional<std::string> MappedFile::loss() const {
  struct stat info{};
  if (descriptor_ < 0) return {};
  if (::fstat(descriptor_, &info) != 0) return "cannot be examined: " + std::generic_category().message(errno);
  if (static_cast<std::size_t>(info.st_size) < bytes_.size()) {
    return "was cut off while it was in use: of " + std::to_string(bytes_.size()) + " bytes it has " +
           std::to_string(info.st_size) + " left; put the file back and start again";
  }
  if (!guard_.lost()) return {};
  return "could not be read in part while it was in use: the disk failed, or the file was cut off for a time; check it "
         "and start again";
}

std::string read_whole_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  std::string content(file.text());
  file.check_whole();
  return content;
}

namespace {

// The hint may be refused without effect. It applies to whole pages, including neighbouring data on them.
void advise(std::span<const std::byte> part, int advice) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t before = reinterpret_cast<std::uintptr_t>(part.data()) % page;
  const std::size_t length = (before + part.size() + page - 1) / page * page;
  if (length > 0) ::madvise(const_cast<std::byte*>(part.data() - before), length, advice);
}

}  // namespace

// Also releases pages that are shared with neighbours: they are read again when accessed, whereas keeping those of
// hundreds of small tensors would add up.
void release_pages(std::span<const std::byte> part) {
  advise(part, MADV_DONTNEED);
}

void prefetch_pages(std::span<const std::byte> part) {
  advise(part, MADV_WILLNEED);
}

}  // namespace ballast::files
