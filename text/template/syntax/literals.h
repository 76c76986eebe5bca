// Numbers and strings as templates write them.
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
/// At the beginning of `text`. Throws TemplateProblem when it takes more than 64 bits.
NumberLiteral read_number(TextView text);

/// The text between the quotes with its escapes resolved, as Python's "unicode-escape" does it.
Text unescape_string(TextView literal);

}  // namespace ballast::text::jinja

#endif  // BALLAST_TEXT_TEMPLATE_SYNTAX_LITERALS_H_
