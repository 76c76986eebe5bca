// Codes in little-endian 32-bit words, the packing of most programs: a dense string of bits, the first code lowest.
#ifndef BALLAST_FORMATS_CODECS_CODE_WORDS_H_
#define BALLAST_FORMATS_CODECS_CODE_WORDS_H_

#include <cstddef>
#include <cstdint>

namespace ballast::formats {

constexpr std::size_t round_up_division(std::size_t count, std::size_t divisor) {
  return count / divisor + (count % divisor != 0 ? 1 : 0);
}

/// Returns the number of words of a string of `count` codes.
constexpr std::size_t words_of_codes(std::size_t count, int bits) {
  return round_up_division(count * static_cast<std::size_t>(bits), 32);
}

/// Returns code `index` of a string whose word i is at words + 4 * i * stride.
unsigned code_at(const std::byte* words, std::size_t stride, std::size_t index, int bits);

/// Stores what code_at() returns. Precondition: the bits of this code are 0.
void put_code(unsigned code, std::uint32_t* words, std::size_t stride, std::size_t index, int bits);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_CODECS_CODE_WORDS_H_
