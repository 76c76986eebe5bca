// Which tokens a model gets as its prefix.
#ifndef BALLAST_CALIB_PREFIX_H_
#define BALLAST_CALIB_PREFIX_H_

#include <cstddef>
#include <string>
#include <vector>

#include "ballast/prefix.h"
#include "ballast/statistics.h"
#include "model/source/model_source.h"

namespace ballast::calib {

/// No automatic prefix is longer; PrefixQuant finds 1 to 4 tokens.
inline constexpr std::size_t kMostPrefixTokens = 8;

/// Tokens that a prefix takes at most.
std::size_t most_tokens(const CachedPrefix& prefix);

/// The tokens of a prefix that is not automatic, or the one that the model has already. Throws Error when the model
/// cannot have it, or has another one.
std::vector<int> fixed_prefix(const model::ModelSource& source, const CachedPrefix& asked);

/// By PrefixQuant's rule: as many tokens as are massive in a sample on average, rounded up, the most frequent first.
/// The place of "whatever stands first" is taken by the token that begins the model's texts, at the end. Throws Error
/// when nothing is massive. `context` is the statistics', for messages.
std::vector<int> massive_prefix(const model::ModelSource& source, const Statistics& statistics,
                                const std::string& context);

/// What a text begins with: BOS, or the token that ends the text before.
int first_token(const model::ModelSource& source);

}  // namespace ballast::calib

#endif  // BALLAST_CALIB_PREFIX_H_
