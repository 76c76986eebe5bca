// Texts written from source texts by models with an encoder and a decoder: translations, summaries, answers.
#ifndef BALLAST_TRANSLATE_H_
#define BALLAST_TRANSLATE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ballast/cache.h"

namespace ballast {

/// Lengths count tokens of the written text, without the one that begins it.
struct TranslateOptions {
  std::string source_language{};  ///< "en", "eng_Latn"; empty: the tokenizer's default
  std::string target_language{};
  std::size_t beams = 1;  ///< texts that are pursued at once; 1: the most likely token is always chosen
  double length_penalty =
      1;  ///< a text's score is the sum of its log-probabilities, divided by this power of its length
  /// Whether a search ends when it has as many complete texts as beams.
  enum class EarlyStop {
    kNo,     ///< it ends when the beams, at their present length, are worse than these texts
    kYes,    ///< it ends
    kNever,  ///< it ends when no length can make the beams better
  };
  EarlyStop early_stop = EarlyStop::kNo;
  std::size_t no_repeat_ngram = 0;  ///< no sequence of this many tokens is written twice; 0: no limit
  double repetition_penalty = 1;    ///< as in GenerateOptions
  std::size_t min_tokens = 0;
  std::size_t max_tokens = 0;       ///< 0: the context
  std::size_t hypotheses = 1;       ///< of each text, the best first; at most `beams`
  std::vector<int> first_tokens{};  ///< with which each text begins, before target_language's
  std::optional<int> last_token{};  ///< with which a text of max_tokens ends
  std::vector<std::vector<int>> forbidden_sequences{};
  bool renormalize = false;        ///< probabilities of the tokens that are left sum to 1
  std::size_t texts_at_once = 32;  ///< that run as one batch
  CacheOptions::Type cache_type = CacheOptions::Type::kAuto;
};

/// A text that was written from a source text.
struct WrittenText {
  std::string text;         ///< without special tokens
  std::vector<int> tokens;  ///< including the one that ended it
  double score = 0;         ///< see TranslateOptions::length_penalty
};

struct Translation {
  std::vector<WrittenText> texts;  ///< the best first
  std::size_t source_tokens = 0;
};

}  // namespace ballast

#endif  // BALLAST_TRANSLATE_H_
