// The hash of contents, XXH3-64: for tensors, saved progress, and the keys of results. It detects damage and
// distinguishes contents; it is not secure against intentional collisions.
#ifndef BALLAST_FILES_CONTENT_HASH_H_
#define BALLAST_FILES_CONTENT_HASH_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace ballast::files {

/// Hashes the parts one after the other.
std::uint64_t content_hash(std::span<const std::span<const std::byte>> parts);
inline std::uint64_t content_hash(std::initializer_list<std::span<const std::byte>> parts) {
  return content_hash(std::span(parts));
}

/// Returns the hash as 16 hexadecimal digits.
std::string content_digits(std::span<const std::byte> bytes);
std::string content_digits(std::string_view text);

}  // namespace ballast::files

#endif  // BALLAST_FILES_CONTENT_HASH_H_
