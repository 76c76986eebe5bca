#include "text/unicode/byte_alphabet.h"

#include <array>

#include "files/utf8.h"

namespace ballast::text {
namespace {

// Bytes that are printable characters in Latin-1 map to themselves, the others to characters from U+0100 on, in order.
constexpr bool is_own_character(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

// Index: code point; value: byte or -1.
constexpr auto kByteOf = [] {
  std::array<int, 0x200> table{};
  table.fill(-1);
  std::size_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) table[is_own_character(byte) ? static_cast<std::size_t>(byte) : next++] = byte;
  return table;
}();

// Index: byte.
constexpr auto kCharacterOf = [] {
  std::array<char32_t, 256> table{};
  for (std::size_t character = 0; character < kByteOf.size(); ++character) {
    if (kByteOf[character] >= 0) table[static_cast<std::size_t>(kByteOf[character])] = static_cast<char32_t>(character);
  }
  return table;
}();

}  // namespace

std::string alphabet_of_bytes(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) files::append_utf8(kCharacterOf[static_cast<unsigned char>(byte)], text);
  return text;
}

std::optional<std::string> bytes_of_alphabet(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    const char32_t character = files::first_code_point(text);
    if (character >= kByteOf.size() || kByteOf[character] < 0) return std::nullopt;
    bytes += static_cast<char>(kByteOf[character]);
    text.remove_prefix(character < 0x80 ? 1 : 2);
  }
  return bytes;
}

}  // namespace ballast::text
