// Compiles constraints for one tokenizer, and matches the tokens of one text with them. Only constraint_compiler.cc
// sees the library that does it, xgrammar (Dong et al. 2024).
#ifndef BALLAST_TEXT_CONSTRAINT_CONSTRAINT_COMPILER_H_
#define BALLAST_TEXT_CONSTRAINT_CONSTRAINT_COMPILER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ballast/constraint.h"
#include "text/tokenizer.h"

namespace ballast::text {

/// A grammar with the tokens that fit at each of its states. Immutable; shared by the texts that it restricts.
class CompiledConstraint {
 public:
  struct Grammar;

  CompiledConstraint(std::shared_ptr<const Grammar> grammar, std::size_t bytes)
      : grammar_(std::move(grammar)), bytes_(bytes) {}

  const Grammar& grammar() const { return *grammar_; }

  /// Returns the memory that it takes, about.
  std::size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<const Grammar> grammar_;
  std::size_t bytes_;
};

/// All methods may be called from any number of threads. Compilations run one after the other; constraints that are
/// compiled do not wait for them.
class ConstraintCompiler {
 public:
  /// The tokenizer must outlive the compiler. `vocabulary` is the number of logits, which may be larger than that of
  /// the tokenizer's ids. Compiled constraints are kept, those that were used last first, while they take at most
  /// `cache_bytes`. Nothing is computed before the first constraint.
  ConstraintCompiler(const Tokenizer& tokenizer, std::size_t vocabulary, std::size_t cache_bytes);
  ~ConstraintCompiler();
  ConstraintCompiler(const ConstraintCompiler&) = delete;
  ConstraintCompiler& operator=(const ConstraintCompiler&) = delete;

  /// Throws Error for a constraint that is not valid, that is too large, or whose texts no token of the vocabulary
  /// begins, and UnsupportedError naming what cannot be enforced.
  /// The time is bounded by the limits of grammars (grammar_limits.h).
  std::shared_ptr<const CompiledConstraint> compile(const Constraint& constraint);

  /// Returns the memory of the compiled constraints that are kept.
  std::size_t cached_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The position of one text in its constraint. Belongs to one thread at a time.
class ConstraintMatcher {
 public:
  /// `end_tokens` may be chosen where the text is complete, and nowhere else. If there are none, the text ends where
  /// nothing can follow.
  ConstraintMatcher(std::shared_ptr<const CompiledConstraint> constraint, std::vector<int> end_tokens);
  ~ConstraintMatcher();
  ConstraintMatcher(ConstraintMatcher&&) noexcept;
  ConstraintMatcher& operator=(ConstraintMatcher&&) noexcept;

  /// Returns the tokens that may come next as bits, [(vocabulary + 31) / 32]; token i is bit i % 32 of word i / 32.
  /// Valid until the next call. It is computed once for each position.
  std::span<const std::uint32_t> allowed();

  /// Advances by a token. Returns false, with nothing changed, if it is not allowed.
  bool accept(int token);

  /// Takes back the last `tokens` accepted tokens.
  void roll_back(std::size_t tokens);

  /// Returns the longest text that must come next; empty if there is a choice.
  std::string forced_text();

  /// Returns whether an end token was accepted.
  bool ended() const;

  /// Returns whether the text may end here.
  bool complete() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns whether this build has the library. Without it, compile() throws Error.
bool has_constraints();

}  // namespace ballast::text

#endif  // BALLAST_TEXT_CONSTRAINT_CONSTRAINT_COMPILER_H_
