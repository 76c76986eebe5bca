// What characters are: white space, words, columns that they take in a font of one width.
#ifndef BALLAST_TEXT_UNICODE_CHARACTERS_H_
#define BALLAST_TEXT_UNICODE_CHARACTERS_H_

#include <cstddef>
#include <string_view>

namespace ballast::text {

/// The property White_Space, which `\s` means in the expressions of Hugging Face's tokenizers.
bool is_white_space(char32_t code_point);

/// `\w` of Rust's regex crate, without the few Other_Alphabetic symbols (circled letters).
bool is_word_character(char32_t code_point);

/// Columns of a terminal that `text` takes: none for combining marks, two for wide characters. Bytes that are not UTF-8
/// take one each.
std::size_t display_width(std::string_view text);

/// As much of the text's beginning, or of its end, as fits into `columns`, in whole code points.
std::string_view first_columns(std::string_view text, std::size_t columns);
std::string_view last_columns(std::string_view text, std::size_t columns);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_UNICODE_CHARACTERS_H_
