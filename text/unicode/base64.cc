#include "text/unicode/base64.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace ballast::text {
namespace {

constexpr std::string_view kBase64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Index: character; value: its six bits or -1.
constexpr auto kValueOf = [] {
  std::array<int, 256> table{};
  table.fill(-1);
  for (std::size_t i = 0; i < kBase64Digits.size(); ++i)
    table[static_cast<unsigned char>(kBase64Digits[i])] = static_cast<int>(i);
  return table;
}();

}  // namespace

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t begin = 0; begin < text.size(); begin += 4) {
    std::uint32_t bits = 0;
    for (std::size_t i = begin; i < begin + 4; ++i) {
      const bool is_padding = i >= text.size() - padding;
      const int value = is_padding ? 0 : kValueOf[static_cast<unsigned char>(text[i])];
      if (value < 0) return std::nullopt;
      bits = bits << 6 | static_cast<std::uint32_t>(value);
    }
    for (const unsigned shift : {16u, 8u, 0u}) bytes += static_cast<char>(bits >> shift & 0xFFu);
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

std::string encode_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t begin = 0; begin < bytes.size(); begin += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - begin);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (i < count ? static_cast<unsigned char>(bytes[begin + i]) : 0u);
    }
    for (std::size_t i = 0; i < 4; ++i) text += i <= count ? kBase64Digits[bits >> (18 - 6 * i) & 0x3Fu] : '=';
  }
  return text;
}

}  // namespace ballast::text
