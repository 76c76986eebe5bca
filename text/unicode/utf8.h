// UTF-8 as bytes: where sequences end, what is broken, single code points.
#ifndef BALLAST_TEXT_UNICODE_UTF8_H_
#define BALLAST_TEXT_UNICODE_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ballast::text {

/// What stands at one position of a byte string.
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

/// The code point at the beginning of non-empty, valid `text`.
char32_t first_code_point(std::string_view text);

/// Where the last code point of non-empty, valid `text` begins.
std::size_t last_code_point_begin(std::string_view text);

void append_utf8(char32_t code_point, std::string& text);

/// The property White_Space, which `\s` stands for in the expressions of Hugging Face's tokenizers.
bool is_white_space(char32_t code_point);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_UNICODE_UTF8_H_
