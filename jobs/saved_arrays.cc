#include "jobs/saved_arrays.h"

#include "ballast/error.h"

namespace ballast::jobs {

void SavedArrays::add_bytes(std::span<const std::byte> bytes) {
  parts_.push_back(std::as_bytes(std::span(&sizes_.emplace_back(bytes.size()), 1)));
  parts_.push_back(bytes);
}

std::string SavedArrays::join() const {
  std::size_t bytes = 0;
  for (const std::span<const std::byte> part : parts_) bytes += part.size();
  std::string blob;
  blob.reserve(bytes);  // growing into it would take twice as much for a moment
  for (const std::span<const std::byte> part : parts_) {
    blob.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  return blob;
}

std::span<const std::byte> SavedArraysReader::next() {
  std::uint64_t size = 0;
  check(rest_.size() >= sizeof size);
  std::memcpy(&size, rest_.data(), sizeof size);
  rest_.remove_prefix(sizeof size);
  check(rest_.size() >= size);
  const auto array = std::as_bytes(std::span(rest_.substr(0, size)));
  rest_.remove_prefix(size);
  return array;
}

std::string SavedArraysReader::text() {
  const std::span<const std::byte> array = next();
  return {reinterpret_cast<const char*>(array.data()), array.size()};
}

void SavedArraysReader::check(bool whole) const {
  if (!whole) throw Error(context_, damaged_);
}

}  // namespace ballast::jobs
