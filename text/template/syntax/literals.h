// Parses numbers and strings of templates.
#ifndef BALLAST_TEXT_TEMPLATE_SYNTAX_LITERALS_H_
#define BALLAST_TEXT_TEMPLATE_SYNTAX_LITERALS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "text/template/values/marked_text.h"

namespace ballast::text::jinja {

struct NumberLiteral {
  std::size_t length = 0;  ///< characters; 0: there is none
  bool is_float = false;
  std::int64_t integer = 0;
  double number = 0;
};
/// Parses the number at the beginning of `text`. Throws TemplateProblem if it needs more than 64 bits.
NumberLiteral read_number(TextView text);

/// Returns the text between the quotes with its escapes resolved, like Python's "unicode-escape".
Text unescape_string(TextView literal);

}  // namespace ballast::text::jinja

#endif  // BALLAST_TEXT_TEMPLATE_SYNTAX_LITERALS_H_
