// Translates regular expressions from Oniguruma's syntax, which Hugging Face's tokenizers use, to PCRE2's.
#ifndef BALLAST_TEXT_UNICODE_REGEX_SYNTAX_H_
#define BALLAST_TEXT_UNICODE_REGEX_SYNTAX_H_

#include <string>
#include <string_view>

namespace ballast::text {

/// The same expression for PCRE2 with UTF, UCP and MULTILINE. What the two read differently is rewritten:
///   \s \S   U+180E is no white space (PCRE2's \s takes it)
///   \w \W   letters, marks, decimal digits and connectors (PCRE2 10.42: letters, all numbers, underscore)
///   \b      between such a character and another, or an end
///   \uHHHH  \x{HHHH}
///   {0,m}+  repeats the repetition (PCRE2: possessive): * or, for {1,m}+, +
/// or refused with an Error naming `context`: \W or \b in a class, \h, \B, option letters other than i, nested classes,
/// &&, other counted repetitions followed by +.
std::string pcre2_from_oniguruma(std::string_view pattern, std::string_view context);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_UNICODE_REGEX_SYNTAX_H_
