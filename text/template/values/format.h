// Strings with places for values: Python's operator % and method format.
#ifndef BALLAST_TEXT_TEMPLATE_VALUES_FORMAT_H_
#define BALLAST_TEXT_TEMPLATE_VALUES_FORMAT_H_

#include <cstdint>
#include <optional>

#include "text/template/function.h"
#include "text/template/values/value.h"

namespace ballast::text::jinja {

enum class Alignment { kLeft, kRight, kCenter, kAfterSign };

/// Filled up to `width` characters; `text` itself where it has as many.
Text padded_text(Text text, std::int64_t width, char32_t fill, Alignment alignment);

/// How one value is written.
struct FormatSpec {
  char32_t fill = U' ';
  std::optional<Alignment> alignment{};
  char sign = '-';         ///< '+' or ' ' writes something before what is not negative, too
  bool alternate = false;  ///< with 0x and the like
  bool grouped = false;    ///< thousands, by commas
  std::int64_t width = 0;
  std::optional<int> precision{};
  char type = 0;  ///< 0: as str() gives it
};
/// A number by any of the types b o x X d e E f F g G %.
Text format_number(const Value& value, const FormatSpec& spec);

/// text % values.
Text format_percent(Interpreter& interpreter, TextView text, const Value& values);
/// text.format(...).
Text format_braces(TextView text, const Arguments& arguments);

/// A count in digits at text[at...]; moves on past it. Fails for what no string can have.
std::optional<std::int64_t> read_count(TextView text, std::size_t& at);

}  // namespace ballast::text::jinja

#endif  // BALLAST_TEXT_TEMPLATE_VALUES_FORMAT_H_
