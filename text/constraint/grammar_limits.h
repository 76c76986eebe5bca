// Limits of grammars from clients, checked before anything is compiled.
#ifndef BALLAST_TEXT_CONSTRAINT_GRAMMAR_LIMITS_H_
#define BALLAST_TEXT_CONSTRAINT_GRAMMAR_LIMITS_H_

#include <cstddef>
#include <string_view>

namespace ballast::text {

/// The largest number of characters of a grammar after its repetitions are unrolled: each can be a state of an
/// automaton, for which the tokens that fit are computed.
inline constexpr std::size_t kMostGrammarStates = 20'000;

/// How many states one of a character that may be nearly any is worth: nearly all tokens must be tried there, which
/// takes 30 ms with a vocabulary of 150,000.
inline constexpr std::size_t kWideState = 80;

/// Throws Error for a grammar that is too long, nested too deeply, or too large after its repetitions are unrolled.
void check_grammar_limits(std::string_view grammar);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_CONSTRAINT_GRAMMAR_LIMITS_H_
