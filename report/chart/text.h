// Numbers and names as a reader sees them on a page; what the program prints too is in ballast/text.h.
#ifndef BALLAST_REPORT_CHART_TEXT_H_
#define BALLAST_REPORT_CHART_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "ballast/text.h"  // IWYU pragma: export

namespace ballast::report {

/// Text for HTML or SVG, between tags or in a quoted attribute.
std::string escape(std::string_view text);

/// As number(), without zeros at the end of a fraction, for round values: "0.1", "10".
std::string round_number(double value);

/// With so many digits that count, where a reader compares values: 3 digits of 0.010489 are "0.0105".
std::string significant(double value, int digits);

/// "41 %", "0.3 %".
std::string percent(double share);

/// Rounded to two digits, for sentences: 14,457 gives "14,000".
std::string rounded(double value);

/// "One", "Two" ... "Nine", then digits: how a sentence begins.
std::string count_word(std::size_t value);

/// A coordinate: at most two decimals, no trailing zeros.
std::string coordinate(double value);

}  // namespace ballast::report

#endif  // BALLAST_REPORT_CHART_TEXT_H_
