// Translates regular expressions to grammars.
#ifndef BALLAST_TEXT_CONSTRAINT_REGEX_GRAMMAR_H_
#define BALLAST_TEXT_CONSTRAINT_REGEX_GRAMMAR_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ballast::text {

/// What an expression is for.
enum class RegexUse {
  kWholeText,   ///< it matches the whole text, with anchors or without
  kJsonString,  ///< a `pattern` of JSON Schema: characters as in a JSON string, without the quotes
};

/// Numbers of characters.
struct TextLengths {
  std::size_t least = 0;
  std::size_t most = static_cast<std::size_t>(-1);
};

/// Returns an expression of a grammar for texts that match `pattern` and have one of the lengths. The syntax is the
/// common part of ECMAScript and Python: literals, classes, groups, alternatives, repetitions, ^ and $ at the ends. \d,
/// \w and
/// \s and their complements are ASCII. A pattern of JSON Schema matches anywhere in a string: one that is anchored at
/// one end leaves the other end open; one without anchors is taken to describe the whole string, although more would be
/// allowed. Where repetitions could make a text too long, each gets a share of the length, so that not all texts of the
/// pattern remain, but all texts are of the pattern. Throws Error naming `context` for another syntax, for repetitions
/// that become too large and if no text has such a length, and UnsupportedError for what no grammar of this kind can
/// express (\b, back references, lookaround) or what differs between programs (\p, flags).
std::string regex_grammar(std::string_view pattern, RegexUse use, std::string_view context,
                          const TextLengths& lengths = {});

/// Returns the class of one character in a JSON string that needs no escape.
std::string json_plain_character();

/// Returns an expression for one character of a JSON string, with escapes; surrogates only in pairs.
std::string json_character();

}  // namespace ballast::text

#endif  // BALLAST_TEXT_CONSTRAINT_REGEX_GRAMMAR_H_
