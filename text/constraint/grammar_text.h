// Pieces of grammars in xgrammar's EBNF.
#ifndef BALLAST_TEXT_CONSTRAINT_GRAMMAR_TEXT_H_
#define BALLAST_TEXT_CONSTRAINT_GRAMMAR_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::text {

/// The largest grammar that is compiled: the time and the memory of a compilation grow with it.
inline constexpr std::size_t kMostGrammarBytes = std::size_t{1} << 19;

/// Code points from `first` to `last`.
struct CodePoints {
  char32_t first = 0;
  char32_t last = 0;

  bool operator==(const CodePoints&) const = default;
};

inline constexpr char32_t kLastCodePoint = 0x10FFFF;

/// Returns the ranges in order, without overlaps.
std::vector<CodePoints> normalized(std::vector<CodePoints> ranges);

/// Returns all other code points; surrogates are in neither.
std::vector<CodePoints> complement(std::vector<CodePoints> ranges);

std::vector<CodePoints> intersection(const std::vector<CodePoints>& a, const std::vector<CodePoints>& b);

/// Returns a literal: "\"...\"". `text` is valid UTF-8.
std::string grammar_literal(std::string_view text);

/// Returns a class of characters: "[...]". There must be at least one.
std::string grammar_class(const std::vector<CodePoints>& ranges);

/// Returns the suffix of a repetition: "", "*", "+", "?" or "{2,5}"; kNoLimit for any number.
std::string grammar_repetition(std::size_t least, std::size_t most);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_CONSTRAINT_GRAMMAR_TEXT_H_
