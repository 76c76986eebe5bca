#include "text/unicode/base64.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace ballast::text {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Index: character; value: its six bits or -1.
constexpr auto kValueOf = [] {
  std::array<int, 256> table{};
  table.fill(-1);
  for (std::size_t i = 0; i < kDigits.size(); ++i) table[static_cast<unsigned char>(kDigits[i])] = static_cast<int>(i);
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

}  // namespace ballast::text
