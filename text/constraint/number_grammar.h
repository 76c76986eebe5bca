// Grammars of JSON numbers in a range.
#ifndef BALLAST_TEXT_CONSTRAINT_NUMBER_GRAMMAR_H_
#define BALLAST_TEXT_CONSTRAINT_NUMBER_GRAMMAR_H_

#include <cstdint>
#include <limits>
#include <string>

namespace ballast::text {

/// Integers have at most 18 digits, so that every reader holds them, and a model does not write digits for ever.
inline constexpr std::int64_t kLargestInteger = 999'999'999'999'999'999;

/// Returns an expression for the integers from `least` to `most`, both from -kLargestInteger to kLargestInteger; there
/// is at least one.
std::string integer_grammar(std::int64_t least, std::int64_t most);

/// A bound of a range of real numbers.
struct NumberBound {
  double value = 0;
  bool excluded = false;  ///< the value itself is not in the range
};

/// Returns an expression for numbers in a range: those without exponent, with at most 15 digits before and after the
/// point together and, if both bounds are infinite, those with an exponent of at most two digits. Empty if there is
/// none: then the range is empty, or lies beyond 18 digits or between neighbouring numbers of 15 digits after the
/// point.
std::string number_grammar(NumberBound least, NumberBound most);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_CONSTRAINT_NUMBER_GRAMMAR_H_
