#include "files/guard/map_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <optional>

#include "ballast/error.h"

namespace ballast::files {
namespace {

static_assert(std::atomic<const std::byte*>::is_always_lock_free && std::atomic<std::size_t>::is_always_lock_free,
              "a signal handler may use no other");

std::mutex records_mutex;  // for writers; the handler only reads
std::atomic<MapRecord*> records = nullptr;

struct sigaction previous_action{};

struct LostFile {
  std::string file;
  std::string problem;
};

thread_local std::optional<LostFile> lost_file;

std::uintptr_t round_up(std::uintptr_t address, std::uintptr_t page) {
  return (address + page - 1) / page * page;
}

MapRecord* record_at(std::uintptr_t address, std::uintptr_t page) {
  for (MapRecord* record = records; record != nullptr; record = record->next) {
    const auto begin = reinterpret_cast<std::uintptr_t>(record->begin.load());
    if (begin != 0 && begin <= address && address < round_up(begin + record->size, page)) return record;
  }
  return nullptr;
}

/// Maps zeros over the unreadable part at `address`: over the whole part that the file has lost, else over one page.
/// Returns whether the address is in one of ballast's maps. Makes only system calls, because it runs in a signal
/// handler.
bool cover_lost_part(std::uintptr_t address) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  MapRecord* record = record_at(address, page);
  if (record == nullptr) return false;
  record->lost = true;
  const auto begin = reinterpret_cast<std::uintptr_t>(record->begin.load());
  std::uintptr_t first = address / page * page;
  std::uintptr_t end = first + page;
  struct stat info{};
  if (::fstat(record->descriptor, &info) == 0) {
    const std::uintptr_t file_end = round_up(begin + static_cast<std::uintptr_t>(info.st_size), page);
    if (file_end <= first) {
      first = file_end;
      end = round_up(begin + record->size, page);
    }
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a signal names its address by a number
  void* const place = reinterpret_cast<void*>(first);
  return ::mmap(place, end - first, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) !=
         MAP_FAILED;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  const bool sent = info->si_code <= 0;  // by a process, not by a memory access
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal, info, context);
  } else if (previous_action.sa_handler == SIG_IGN && sent) {
    return;
  } else if (previous_action.sa_handler == SIG_DFL || previous_action.sa_handler == SIG_IGN) {
    struct sigaction action{};
    action.sa_handler = SIG_DFL;
    ::sigaction(signal, &action, nullptr);
    if (sent) ::raise(signal);  // otherwise the access is repeated, and the system ends the process
  } else {
    previous_action.sa_handler(signal);
  }
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool covered = info->si_code > 0 && cover_lost_part(reinterpret_cast<std::uintptr_t>(info->si_addr));
  errno = error;
  if (!covered) pass_on(signal, info, context);
}

MapRecord* free_record() {
  for (MapRecord* record = records; record != nullptr; record = record->next) {
    if (record->begin == nullptr) return record;
  }
  auto* record = new MapRecord{.next = records};  // never freed
  records = record;
  return record;
}

}  // namespace

GuardedMap::GuardedMap(std::span<const std::byte> bytes, int descriptor) {
  const std::lock_guard lock(records_mutex);
  record_ = free_record();
  record_->lost = false;
  record_->size = bytes.size();
  record_->descriptor = descriptor;
  record_->begin = bytes.data();
}

GuardedMap::~GuardedMap() {
  if (record_ == nullptr) return;
  const std::lock_guard lock(records_mutex);
  record_->begin = nullptr;
}

void note_lost_file(std::string file, std::string problem) {
  lost_file = {.file = std::move(file), .problem = std::move(problem)};
}

}  // namespace ballast::files

namespace ballast {

void guard_mapped_files() {
  static std::once_flag installed;
  std::call_once(installed, [] {
    struct sigaction action{};
    action.sa_sigaction = files::on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &files::previous_action);
  });
}

std::optional<FileError> take_lost_file() {
  const std::optional<files::LostFile> lost = std::exchange(files::lost_file, std::nullopt);
  if (!lost) return {};
  return FileError(lost->file, lost->problem);
}

}  // namespace ballast
