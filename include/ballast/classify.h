// Labels of texts and of their tokens, and the order of documents for a query.
#ifndef BALLAST_CLASSIFY_H_
#define BALLAST_CLASSIFY_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ballast/cache.h"

namespace ballast {

/// Two texts that a model reads together, such as a query and a document.
struct TextPair {
  std::string first;
  std::string second;
};

struct ClassifyOptions {
  bool raw_scores = false;                   ///< scores before ClassifierSpec::function
  std::optional<std::size_t> most_tokens{};  ///< of a text or a pair, including special tokens [the context]
  CacheOptions::Type cache_type = CacheOptions::Type::kAuto;
};

/// The scores of one text.
struct TextScores {
  std::vector<std::string> tokens;  ///< texts of the tokens without special ones; empty if the text has scores
  std::vector<float> scores;        ///< [labels], or [tokens][labels]
};

struct Classification {
  std::vector<std::string> labels;
  std::vector<TextScores> texts;
  std::size_t tokens = 0;  ///< of all texts
  std::size_t cut = 0;     ///< number of truncated texts
};

/// The scores of documents for a query.
struct Ranking {
  std::vector<float> scores;  ///< [documents]
  std::size_t tokens = 0;     ///< of all texts
  std::size_t cut = 0;        ///< number of truncated texts
};

}  // namespace ballast

#endif  // BALLAST_CLASSIFY_H_
