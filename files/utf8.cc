#include "files/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace ballast::files {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The number of bytes that a lead byte announces, and the range of the byte after it (narrower than 80..BF where that
// would spell an overlong form, a surrogate or something above U+10FFFF).
struct Lead {
  std::size_t length;
  unsigned char second_low;
  unsigned char second_high;
};

constexpr Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Returns the length of the ASCII run at `position`, in steps of eight bytes.
std::size_t ascii_words(std::string_view text, std::size_t position) {
  const std::size_t begin = position;
  std::uint64_t word = 0;
  while (text.size() - position >= sizeof(word)) {
    std::memcpy(&word, text.data() + position, sizeof(word));
    if ((word & 0x8080808080808080u) != 0) break;
    position += sizeof(word);
  }
  return position - begin;
}

// Returns the position of the first step that is not a whole code point, or the size.
std::size_t valid_prefix(std::string_view text) {
  std::size_t position = 0;
  while (position < text.size()) {
    position += ascii_words(text, position);
    if (position == text.size()) break;
    const Utf8Step step = utf8_step(text, position);
    if (step.kind != Utf8Step::Kind::kWhole) return position;
    position += step.length;
  }
  return position;
}

}  // namespace

Utf8Step utf8_step(std::string_view text, std::size_t position) {
  const Lead lead = lead_of(static_cast<unsigned char>(text[position]));
  if (lead.length == 0) return {Utf8Step::Kind::kBroken, 1};
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (position + i == text.size()) return {Utf8Step::Kind::kTruncated, i};
    const auto byte = static_cast<unsigned char>(text[position + i]);
    const bool fits = i == 1 ? byte >= lead.second_low && byte <= lead.second_high : byte >= 0x80 && byte <= 0xBF;
    if (!fits) return {Utf8Step::Kind::kBroken, i};
  }
  return {Utf8Step::Kind::kWhole, lead.length};
}

bool is_utf8(std::string_view text) {
  return valid_prefix(text) == text.size();
}

std::size_t count_code_points(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::ranges::count_if(text, continues_code_point));
}

char32_t first_code_point(std::string_view text) {
  const auto byte = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead_of(byte).length;
  if (length == 1) return byte;
  char32_t code_point = byte & (0xFFu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) code_point = code_point << 6 | (static_cast<unsigned char>(text[i]) & 0x3Fu);
  return code_point;
}

std::size_t last_code_point_begin(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && continues_code_point(text[begin])) --begin;
  return begin;
}

void append_utf8(char32_t code_point, std::string& text) {
  const auto continuation = [&](unsigned shift) { text += static_cast<char>(0x80u | (code_point >> shift & 0x3Fu)); };
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    text += static_cast<char>(0xC0u | code_point >> 6);
    continuation(0);
  } else if (code_point < 0x10000) {
    text += static_cast<char>(0xE0u | code_point >> 12);
    continuation(6);
    continuation(0);
  } else {
    text += static_cast<char>(0xF0u | code_point >> 18);
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (true) {
    const std::size_t whole = valid_prefix(text);
    valid += text.substr(0, whole);
    if (whole == text.size()) return valid;
    valid += kReplacement;
    text.remove_prefix(whole + utf8_step(text, whole).length);
  }
}

}  // namespace ballast::files
