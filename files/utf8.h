// UTF-8 as bytes: where sequences end, what is broken, single code points.
#ifndef BALLAST_FILES_UTF8_H_
#define BALLAST_FILES_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ballast::files {

/// What some editors of Windows write at the beginning of a file.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// What is at one position of a byte string.
struct Utf8Step {
  enum class Kind {
    kWhole,      ///< a code point
    kBroken,     ///< bytes that can never be a part of one ("maximal subpart" of the Unicode standard, 3.9)
    kTruncated,  ///< the beginning of one; the text ends before it does
  };
  Kind kind = Kind::kWhole;
  std::size_t length = 1;  ///< bytes, at least 1
};

/// `position` < text.size().
Utf8Step utf8_step(std::string_view text, std::size_t position);

bool is_utf8(std::string_view text);

/// With U+FFFD for every maximal subpart that is not UTF-8, as Python does.
std::string replace_invalid_utf8(std::string_view text);

/// Whether a byte continues a code point that an earlier one began.
constexpr bool continues_code_point(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0u) == 0x80u;
}

/// Code points of valid `text`.
std::size_t count_code_points(std::string_view text);

/// The code point at the beginning of non-empty, valid `text`.
char32_t first_code_point(std::string_view text);

/// Where the last code point of non-empty, valid `text` begins.
std::size_t last_code_point_begin(std::string_view text);

void append_utf8(char32_t code_point, std::string& text);

}  // namespace ballast::files

#endif  // BALLAST_FILES_UTF8_H_
