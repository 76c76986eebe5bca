// Transformations of valid UTF-8 that normalizers are made of.
#ifndef BALLAST_TEXT_UNICODE_TEXT_TRANSFORMS_H_
#define BALLAST_TEXT_UNICODE_TEXT_TRANSFORMS_H_

#include <string>
#include <string_view>

namespace ballast::text {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

std::string to_unicode_form(std::string_view text, UnicodeForm form);

/// Converts character by character, without context.
std::string lowercase(std::string_view text);

/// Removes combining marks (categories M, or only Mn).
std::string remove_marks(std::string_view text);
std::string remove_nonspacing_marks(std::string_view text);

/// As BERT's tokenizer does it: without control characters and U+FFFD, every white space a plain space.
std::string clean_text(std::string_view text);

/// As BERT's tokenizer does it: a space on both sides of every ideograph.
std::string space_ideographs(std::string_view text);

/// Without the white space at its ends.
std::string_view strip(std::string_view text, bool left, bool right);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_UNICODE_TEXT_TRANSFORMS_H_
