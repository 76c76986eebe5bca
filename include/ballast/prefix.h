// A fixed prefix in front of every sequence.
#ifndef BALLAST_PREFIX_H_
#define BALLAST_PREFIX_H_

#include <string>
#include <string_view>
#include <vector>

namespace ballast {

/// Tokens whose keys and values stand in the cache, in 16 bits, before a text begins (PrefixQuant, Chen et al. 2024,
/// arXiv:2410.05265): they become massive, so that later tokens need not.
struct CachedPrefix {
  bool automatic = false;        ///< those that calibration finds massive; `tokens` is then empty
  std::vector<int> tokens = {};  ///< ids

  bool none() const { return !automatic && tokens.empty(); }
  bool operator==(const CachedPrefix&) const = default;
};

/// "none", "auto" or ids: "198,0".
std::string prefix_name(const CachedPrefix& prefix);

/// The inverse. Throws Error at `context` saying what there is.
CachedPrefix parse_prefix(std::string_view name, std::string_view context);

}  // namespace ballast

#endif  // BALLAST_PREFIX_H_
