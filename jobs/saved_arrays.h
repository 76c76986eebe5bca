// Arrays as one blob of saved progress (jobs/job_state.h).
#ifndef BALLAST_JOBS_SAVED_ARRAYS_H_
#define BALLAST_JOBS_SAVED_ARRAYS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ballast::jobs {

/// A list of arrays to save: the blob has each after its size in bytes. Arrays are views, so that a blob as large as
/// all samples is written without a copy of them.
class SavedArrays {
 public:
  /// Adds a contiguous array, which must outlive this.
  void add(const auto& array) { add_bytes(std::as_bytes(std::span(array))); }

  /// Adds an array, or a text, and keeps it.
  void add_owned(std::vector<std::byte> bytes) { add(owned_.emplace_back(std::move(bytes))); }
  void add_text(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    add_owned({bytes.begin(), bytes.end()});
  }

  /// Returns the blob in parts, for JobState::put(). They are valid as long as this.
  std::span<const std::span<const std::byte>> parts() const { return parts_; }

  /// Returns the blob in one piece.
  std::string join() const;

 private:
  void add_bytes(std::span<const std::byte> bytes);

  std::deque<std::vector<std::byte>> owned_;
  std::deque<std::uint64_t> sizes_;
  std::vector<std::span<const std::byte>> parts_;  ///< sizes and arrays by turns
};

/// Reads the arrays of a SavedArrays in the same order. The blob must outlive this object.
class SavedArraysReader {
 public:
  /// `context` and `damaged` are the text of the Error for a blob with other arrays: its location, and what to do.
  SavedArraysReader(std::string_view blob, std::string context, std::string damaged)
      : rest_(blob), context_(std::move(context)), damaged_(std::move(damaged)) {}

  /// Returns the next array, of any size.
  std::span<const std::byte> next();
  std::string text();

  /// Fills a contiguous array with the next one, which must have the same size.
  void get(auto&& array) {
    const auto to = std::as_writable_bytes(std::span(array));
    const std::span<const std::byte> from = next();
    check(from.size() == to.size());
    if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
  }

  /// Throws Error unless `whole`.
  void check(bool whole) const;

  /// Throws Error when the blob has more arrays.
  void finish() const { check(rest_.empty()); }

 private:
  std::string_view rest_;
  std::string context_;
  std::string damaged_;
};

}  // namespace ballast::jobs

#endif  // BALLAST_JOBS_SAVED_ARRAYS_H_
