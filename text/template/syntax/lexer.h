// Splits template text into tokens with white space control: trim_blocks and lstrip_blocks are on, the last line's end
// is dropped, and every line ends in \n.
#ifndef BALLAST_TEXT_TEMPLATE_SYNTAX_LEXER_H_
#define BALLAST_TEXT_TEMPLATE_SYNTAX_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/template/values/marked_text.h"

namespace ballast::text::jinja {

struct Token {
  enum class Kind {
    kData,           ///< text between tags
    kBlockBegin,     ///< {%
    kBlockEnd,       ///< %}
    kVariableBegin,  ///< {{
    kVariableEnd,    ///< }}
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind = Kind::kEnd;
  int line = 0;
  std::string name{};  ///< of a name or an operator
  Text text{};         ///< of data or a string
  std::int64_t integer = 0;
  double number = 0;
};

/// Returns the tokens, of which the last is kEnd. Throws TemplateProblem that names the line.
std::vector<Token> tokenize(std::string_view source);

}  // namespace ballast::text::jinja

#endif  // BALLAST_TEXT_TEMPLATE_SYNTAX_LEXER_H_
