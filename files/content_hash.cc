#include "files/content_hash.h"

#include <xxhash.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <memory>

namespace ballast::files {

std::uint64_t content_hash(std::span<const std::span<const std::byte>> parts) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(state.get());
  for (const auto part : parts) XXH3_64bits_update(state.get(), part.data(), part.size());
  return XXH3_64bits_digest(state.get());
}

std::string content_digits(std::span<const std::byte> bytes) {
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016" PRIx64, std::uint64_t{XXH3_64bits(bytes.data(), bytes.size())});
  return digits.data();
}

std::string content_digits(std::string_view text) {
  return content_digits(std::as_bytes(std::span(text)));
}

}  // namespace ballast::files
