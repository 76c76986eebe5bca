// Character classes: white space and words. ballast/text.h has display widths.
#ifndef BALLAST_TEXT_UNICODE_CHARACTERS_H_
#define BALLAST_TEXT_UNICODE_CHARACTERS_H_

namespace ballast::text {

/// The property White_Space, which `\s` means in the expressions of Hugging Face's tokenizers.
bool is_white_space(char32_t code_point);

/// `\w` of Rust's regex crate, without the few Other_Alphabetic symbols (circled letters).
bool is_word_character(char32_t code_point);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_UNICODE_CHARACTERS_H_
