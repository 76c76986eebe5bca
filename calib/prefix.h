// Chooses the tokens of a model's prefix.
#ifndef BALLAST_CALIB_PREFIX_H_
#define BALLAST_CALIB_PREFIX_H_

#include <cstddef>
#include <string>
#include <vector>

#include "ballast/prefix.h"
#include "ballast/statistics.h"
#include "model/source/model_source.h"

namespace ballast::calib {

/// The limit for automatic prefixes; PrefixQuant finds 1 to 4 tokens.
inline constexpr std::size_t kMostPrefixTokens = 8;

/// Returns the largest number of tokens of a prefix.
std::size_t most_tokens(const CachedPrefix& prefix);

/// Returns the tokens of a prefix that is not automatic, or those of the model. Throws Error if the model does not
/// support a prefix, or has another one.
std::vector<int> fixed_prefix(const model::ModelSource& source, const CachedPrefix& asked);

/// Chooses a prefix by PrefixQuant's rule: as many tokens as are massive in a sample on average, rounded up, the most
/// frequent first. "The first token of any text" is replaced by the token that begins the model's texts, at the end.
/// Throws Error if nothing is massive. `context` is that of the statistics, for messages.
std::vector<int> massive_prefix(const model::ModelSource& source, const Statistics& statistics,
                                const std::string& context);

/// Returns the token with which a text begins: BOS, or the token that ends the text before.
int first_token(const model::ModelSource& source);

}  // namespace ballast::calib

#endif  // BALLAST_CALIB_PREFIX_H_
