// Formats text and figures for users: for the program's output and for pages.
#ifndef BALLAST_TEXT_H_
#define BALLAST_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::text {

/// Returns the number of terminal columns of `text`: none for combining marks, two for wide characters. Bytes that are
/// not UTF-8 count one each.
std::size_t display_width(std::string_view text);

/// Return the longest beginning, or end, of the text that fits into `columns`, in whole code points.
std::string_view first_columns(std::string_view text, std::size_t columns);
std::string_view last_columns(std::string_view text, std::size_t columns);

/// Returns `bytes` from its first complete code point on: a piece of a text may begin in the middle of one.
std::string_view from_code_point(std::string_view bytes);

/// Returns "988 B", "12.3 kB", "271.2 MB", "1.49 GB": powers of 1000, three or four digits.
std::string format_bytes(std::uint64_t bytes);

/// Returns the bytes of "92MB", "1.5 GiB", "96000000", the inverse of format_bytes. Units of 1000 or (KiB, MiB, ...) of
/// 1024, in letters of any case. Throws Error at `context` for other text and for less than 1 byte.
std::uint64_t parse_bytes(std::string_view context, std::string_view text);

}  // namespace ballast::text

namespace ballast::report {

/// Returns a token's text with visible characters only: spaces as "␣", "\n", "\t", other control and formatting
/// characters as "\u{200b}", bytes that are not UTF-8 as "\xff". Not escaped. An empty text becomes "(empty)".
std::string visible(std::string_view text);

/// Returns the same for names of files and models, in which spaces are kept.
std::string printable(std::string_view text);

/// Returns at most `columns` columns of a fixed-width font, wide characters counted as two; cut at the end with "…".
std::string shortened(std::string_view utf8, std::size_t columns);

/// Returns "23,855", "151", "12.4", "1.65", "0.0123", "3.4e-07"; "−" before negative values, "–" for values that are
/// not finite.
std::string number(double value);
std::string count(std::size_t value);

/// Returns "1 head", "2,040 heads".
std::string counted(std::size_t value, std::string_view singular, std::string_view plural);

/// Returns "3, 12–28 and 30" for ascending numbers.
std::string ranges(const std::vector<std::size_t>& ascending);

/// Returns "a", "a and b", "a, b and c"; beyond `most`: "a, b and 5 more".
std::string listed(const std::vector<std::string>& items, std::size_t most);

}  // namespace ballast::report

#endif  // BALLAST_TEXT_H_
