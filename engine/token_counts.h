// How often tokens have come, for the penalties.
#ifndef BALLAST_ENGINE_TOKEN_COUNTS_H_
#define BALLAST_ENGINE_TOKEN_COUNTS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace ballast::engine {

/// Counts all tokens, or the last `window` of them.
class TokenCounts {
 public:
  struct Count {
    int token = 0;
    unsigned times = 0;
  };

  explicit TokenCounts(std::optional<std::size_t> window) : window_(window) {}

  /// Allocates memory once in a while only: most calls take none.
  void add(int token);
  void add(std::span<const int> tokens);

  /// One entry for each token that is there, by its id.
  std::span<const Count> counts() const { return counts_; }

 private:
  void remove(int token);

  std::optional<std::size_t> window_;
  std::vector<Count> counts_;
  std::vector<int> last_;   ///< with a window: the counted tokens, in a ring once there are as many as it has
  std::size_t oldest_ = 0;  ///< its place in the ring
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_TOKEN_COUNTS_H_
