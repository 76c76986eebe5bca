// Numbers and names as shown on a page; those that the program prints, too, are in ballast/text.h.
#ifndef BALLAST_REPORT_CHART_TEXT_H_
#define BALLAST_REPORT_CHART_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "ballast/text.h"  // IWYU pragma: export

namespace ballast::report {

/// Escapes text for HTML or SVG, between tags or in a quoted attribute.
std::string escape(std::string_view text);

/// Returns number() without zeros at the end of a fraction, for round values: "0.1", "10".
std::string round_number(double value);

/// Returns a value with `digits` significant digits: 3 digits of 0.010489 are "0.0105".
std::string significant(double value, int digits);

/// Returns "41 %", "0.3 %".
std::string percent(double share);

/// Rounds to two digits, for sentences: 14,457 gives "14,000".
std::string rounded(double value);

/// Returns "One", "Two" ... "Nine", then digits, for the beginning of a sentence.
std::string count_word(std::size_t value);

/// Returns a coordinate with at most two decimals and no trailing zeros.
std::string coordinate(double value);

}  // namespace ballast::report

#endif  // BALLAST_REPORT_CHART_TEXT_H_
