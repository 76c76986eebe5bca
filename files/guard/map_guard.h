// The list of maps for the handler of SIGBUS: ballast/error.h.
#ifndef BALLAST_FILES_GUARD_MAP_GUARD_H_
#define BALLAST_FILES_GUARD_MAP_GUARD_H_

#include <atomic>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

namespace ballast::files {

/// A map. A signal handler may read it at any time, so records are never freed: the record of a closed map is reused.
struct MapRecord {
  std::atomic<const std::byte*> begin = nullptr;  ///< null: the record is free
  std::atomic<std::size_t> size = 0;
  std::atomic<int> descriptor = -1;
  std::atomic<bool> lost = false;  ///< the handler replaced a part of the map with zeros
  MapRecord* next = nullptr;
};

/// Keeps a map in the list during its lifetime.
class GuardedMap {
 public:
  GuardedMap() = default;  ///< of no map
  GuardedMap(std::span<const std::byte> bytes, int descriptor);
  ~GuardedMap();
  GuardedMap(GuardedMap&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
  GuardedMap& operator=(GuardedMap&& other) noexcept {
    std::swap(record_, other.record_);
    return *this;
  }

  bool lost() const { return record_ != nullptr && record_->lost; }

 private:
  MapRecord* record_ = nullptr;
};

/// Stores the result of take_lost_file() for this thread.
void note_lost_file(std::string file, std::string problem);

}  // namespace ballast::files

#endif  // BALLAST_FILES_GUARD_MAP_GUARD_H_
