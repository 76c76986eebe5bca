// A fixed prefix before every sequence.
#ifndef BALLAST_PREFIX_H_
#define BALLAST_PREFIX_H_

#include <string>
#include <string_view>
#include <vector>

namespace ballast {

/// Tokens whose keys and values are in the cache, in 16 bits, before a text begins (PrefixQuant, Chen et al. 2024,
/// arXiv:2410.05265): they become massive, so that later tokens do not.
struct CachedPrefix {
  bool automatic = false;        ///< the tokens that calibration finds massive; `tokens` is then empty
  std::vector<int> tokens = {};  ///< ids

  bool none() const { return !automatic && tokens.empty(); }
  bool operator==(const CachedPrefix&) const = default;
};

/// Returns "none", "auto" or ids: "198,0".
std::string prefix_name(const CachedPrefix& prefix);

/// The inverse of prefix_name. Throws Error at `context` listing the valid forms.
CachedPrefix parse_prefix(std::string_view name, std::string_view context);

}  // namespace ballast

#endif  // BALLAST_PREFIX_H_
