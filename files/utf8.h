// UTF-8 as bytes: ends of sequences, invalid parts, single code points.
#ifndef BALLAST_FILES_UTF8_H_
#define BALLAST_FILES_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ballast::files {

/// A mark that some editors of Windows write at the beginning of a file.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// The sequence at one position of a byte string.
struct Utf8Step {
  enum class Kind {
    kWhole,      ///< a code point
    kBroken,     ///< bytes that are never a part of a code point ("maximal subpart" of the Unicode standard, 3.9)
    kTruncated,  ///< the beginning of a code point at the end of the text
  };
  Kind kind = Kind::kWhole;
  std::size_t length = 1;  ///< bytes, at least 1
};

/// `position` < text.size().
Utf8Step utf8_step(std::string_view text, std::size_t position);

bool is_utf8(std::string_view text);

/// Replaces every maximal subpart that is not UTF-8 by U+FFFD, as Python does.
std::string replace_invalid_utf8(std::string_view text);

/// Returns whether a byte continues a code point.
constexpr bool continues_code_point(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0u) == 0x80u;
}

/// Returns the number of code points of valid `text`.
std::size_t count_code_points(std::string_view text);

/// Returns the code point at the beginning of non-empty, valid `text`.
char32_t first_code_point(std::string_view text);

/// Returns the position of the last code point of non-empty, valid `text`.
std::size_t last_code_point_begin(std::string_view text);

void append_utf8(char32_t code_point, std::string& text);

}  // namespace ballast::files

#endif  // BALLAST_FILES_UTF8_H_
