#include "files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
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

 private:
  int fd_;
};

[[noreturn]] void throw_errno(const std::filesystem::path& path, const std::string& what) {
  throw FileError(path.string(), what + ": " + std::generic_category().message(errno));
}

}  // namespace

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer before fstat can refuse it.
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
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
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

void release_pages(std::span<const std::byte> part) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<std::uintptr_t>(part.data());
  // Pages that a neighbour shares go too: they come back when it is touched, while those of hundreds of small tensors
  // would add up if they stayed.
  const std::size_t before = start % page;
  const std::size_t length = (before + part.size() + page - 1) / page * page;
  // Only a hint: when the kernel refuses it, the pages stay and nothing else changes.
  if (length > 0) ::madvise(const_cast<std::byte*>(part.data() - before), length, MADV_DONTNEED);
}

}  // namespace ballast::files
