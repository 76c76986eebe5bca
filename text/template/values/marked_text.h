// Text of templates: code points with a mark for those that a user wrote. Copying characters keeps the marks, and
// comparing ignores them.
#ifndef BALLAST_TEXT_TEMPLATE_VALUES_MARKED_TEXT_H_
#define BALLAST_TEXT_TEMPLATE_VALUES_MARKED_TEXT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::text::jinja {

/// Code points with or without kUserMark. Never compare two of them with ==; see same_text().
using Text = std::u32string;
using TextView = std::u32string_view;

inline constexpr char32_t kUserMark = 0x80000000U;
constexpr char32_t unmarked(char32_t character) {
  return character & ~kUserMark;
}
/// Returns `character` with the mark of `model`, if it has one.
constexpr char32_t marked_like(char32_t model, char32_t character) {
  return unmarked(character) | (model & kUserMark);
}

enum class Origin { kTemplate, kUser };

/// `utf8` must be valid.
Text make_text(std::string_view utf8, Origin origin = Origin::kTemplate);
std::string to_utf8(TextView text);

bool same_text(TextView left, TextView right);
/// Returns whether `left` is less, by code points.
bool text_less(TextView left, TextView right);
bool text_starts_with(TextView text, TextView prefix);
bool text_ends_with(TextView text, TextView suffix);
/// Returns npos if `part` is not in text[from, ...).
std::size_t find_text(TextView text, TextView part, std::size_t from = 0);
std::size_t find_last_text(TextView text, TextView part);

// The functions below behave like Python's methods of str with the same names.

bool is_python_space(char32_t character);
bool is_line_end(char32_t character);
bool is_digit_character(char32_t character);  ///< category Nd
bool is_alphabetic(char32_t character);       ///< categories L
bool is_upper_character(char32_t character);
bool is_lower_character(char32_t character);

enum class Side { kBoth, kLeft, kRight };
/// Strips `characters` at the ends; white space by default.
TextView strip_text(TextView text, Side side, std::optional<TextView> characters = std::nullopt);

inline constexpr std::size_t kNoLimit = static_cast<std::size_t>(-1);
/// Splits at most `most` times, from the left or from the right. `separator` is not empty.
std::vector<TextView> split_text(TextView text, TextView separator, std::size_t most = kNoLimit);
std::vector<TextView> split_text_right(TextView text, TextView separator, std::size_t most = kNoLimit);
/// Splits at runs of white space.
std::vector<TextView> split_words(TextView text, std::size_t most = kNoLimit);
std::vector<TextView> split_words_right(TextView text, std::size_t most = kNoLimit);
std::vector<TextView> split_lines(TextView text, bool keep_ends);

std::size_t count_text(TextView text, TextView part);
Text replace_text(TextView text, TextView old_part, TextView new_part, std::size_t most = kNoLimit);

/// Replaces characters with a meaning in HTML by entities.
Text escape_text(TextView text);

Text upper_text(TextView text);
Text lower_text(TextView text);
Text capitalize_text(TextView text);
Text title_text(TextView text);
bool is_lower_text(TextView text);
bool is_upper_text(TextView text);

}  // namespace ballast::text::jinja

#endif  // BALLAST_TEXT_TEMPLATE_VALUES_MARKED_TEXT_H_
