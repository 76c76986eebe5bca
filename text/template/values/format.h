// Format strings: Python's operator % and method format.
#ifndef BALLAST_TEXT_TEMPLATE_VALUES_FORMAT_H_
#define BALLAST_TEXT_TEMPLATE_VALUES_FORMAT_H_

#include <cstdint>
#include <optional>

#include "text/template/function.h"
#include "text/template/values/value.h"

namespace ballast::text::jinja {

enum class Alignment { kLeft, kRight, kCenter, kAfterSign };

/// Pads the text to `width` characters; returns `text` if it is long enough.
Text padded_text(Text text, std::int64_t width, char32_t fill, Alignment alignment);

/// The format of one value.
struct FormatSpec {
  char32_t fill = U' ';
  std::optional<Alignment> alignment{};
  char sign = '-';         ///< '+' or ' ' is also written before non-negative numbers
  bool alternate = false;  ///< with 0x and the like
  bool grouped = false;    ///< thousands, by commas
  std::int64_t width = 0;
  std::optional<int> precision{};
  char type = 0;  ///< 0: as str() gives it
};
/// Formats a number with any of the types b o x X d e E f F g G %.
Text format_number(const Value& value, const FormatSpec& spec);

/// Evaluates text % values.
Text format_percent(Interpreter& interpreter, TextView text, const Value& values);
/// Evaluates text.format(...).
Text format_braces(TextView text, const Arguments& arguments);

/// Reads a count in digits at text[at...] and advances `at`. Fails for counts that no string can have.
std::optional<std::int64_t> read_count(TextView text, std::size_t& at);

}  // namespace ballast::text::jinja

#endif  // BALLAST_TEXT_TEMPLATE_VALUES_FORMAT_H_
