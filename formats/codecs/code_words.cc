#include "formats/codecs/code_words.h"

#include <cstring>

namespace ballast::formats {

namespace {

constexpr std::size_t kWordBits = 32;

}  // namespace

unsigned code_at(const std::byte* words, std::size_t stride, std::size_t index, int bits) {
  const auto width = static_cast<std::size_t>(bits);
  const std::size_t first_bit = index * width;
  const std::byte* at = words + first_bit / kWordBits * stride * sizeof(std::uint32_t);
  const std::size_t shift = first_bit % kWordBits;
  std::uint32_t word = 0;
  std::memcpy(&word, at, sizeof(word));
  std::uint32_t code = word >> shift;
  if (shift + width > kWordBits) {
    std::memcpy(&word, at + stride * sizeof(word), sizeof(word));
    code |= word << (kWordBits - shift);
  }
  return code & ((1U << width) - 1);
}

void put_code(unsigned code, std::uint32_t* words, std::size_t stride, std::size_t index, int bits) {
  const auto width = static_cast<std::size_t>(bits);
  const std::size_t first_bit = index * width;
  std::uint32_t* word = words + first_bit / kWordBits * stride;
  const std::size_t shift = first_bit % kWordBits;
  *word |= std::uint32_t{code} << shift;
  if (shift + width > kWordBits) word[stride] |= std::uint32_t{code} >> (kWordBits - shift);
}

}  // namespace ballast::formats
