// Multiple-choice questions as texts and as tokens.
#ifndef BALLAST_EVAL_QUESTIONS_H_
#define BALLAST_EVAL_QUESTIONS_H_

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace ballast::eval {

struct Question {
  std::string text;
  std::vector<std::string> choices;  ///< at least two, none of them empty
  std::size_t answer = 0;            ///< index of the right choice
  std::string location;              ///< "FILE:LINE"
};

/// Reads the file of ChoiceOptions::questions_file. Throws Error naming file and line.
std::vector<Question> read_questions(const std::filesystem::path& file);

/// The tokens of a context, and the tokens to be scored after it.
struct ContinuationIds {
  std::vector<int> context;       ///< at least one
  std::vector<int> continuation;  ///< at least one
};

/// Returns the tokens of `context` and those that `continuation` adds to them. Both are encoded together, so that a
/// token may span the border only if it is not one of the context alone (lm-evaluation-harness, `_encode_pair`). White
/// space at the end of the context is moved to the continuation. If the context is empty, it is BOS, or else EOS.
/// Throws Error(location, ...) if the continuation adds no token.
ContinuationIds encode_continuation(const text::Tokenizer& tokenizer, std::string_view context,
                                    std::string_view continuation, const std::string& location);

}  // namespace ballast::eval

#endif  // BALLAST_EVAL_QUESTIONS_H_
