// Numbers and names as a reader sees them on a page.
#ifndef BALLAST_REPORT_CHART_TEXT_H_
#define BALLAST_REPORT_CHART_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::report {

/// Text for HTML or SVG, between tags or in a quoted attribute.
std::string escape(std::string_view text);

/// A token's text with nothing invisible in it: spaces as "␣", "\n", "\t", other control and formatting characters as
/// "\u{200b}", bytes that are no UTF-8 as "\xff". Not escaped. An empty text becomes "(empty)".
std::string visible(std::string_view text);

/// The same for names of files and models: spaces stay spaces.
std::string printable(std::string_view text);

/// At most `columns` columns of a fixed-width font, wide characters counted as two; cut at the end with "…".
std::string shortened(std::string_view utf8, std::size_t columns);

/// "23,855", "151", "12.4", "1.65", "0.0123", "3.4e-07"; "−" in front of negative values, "–" for what is not finite.
std::string number(double value);
std::string count(std::size_t value);

/// The same without zeros at the end of a fraction, for round values: "0.1", "10".
std::string round_number(double value);

/// With so many digits that count, where a reader compares values: 3 digits of 0.010489 are "0.0105".
std::string significant(double value, int digits);

/// "41 %", "0.3 %".
std::string percent(double share);

/// Rounded to two digits, for sentences: 14,457 gives "14,000".
std::string rounded(double value);

/// "One", "Two" ... "Nine", then digits: how a sentence begins.
std::string count_word(std::size_t value);

/// "1 head", "2,040 heads".
std::string counted(std::size_t value, std::string_view singular, std::string_view plural);

/// "3, 12–28 and 30" from ascending numbers.
std::string ranges(const std::vector<std::size_t>& ascending);

/// "a", "a and b", "a, b and c"; beyond `most`: "a, b and 5 more".
std::string listed(const std::vector<std::string>& items, std::size_t most);

/// A coordinate: at most two decimals, no trailing zeros.
std::string coordinate(double value);

}  // namespace ballast::report

#endif  // BALLAST_REPORT_CHART_TEXT_H_
