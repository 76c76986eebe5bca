// Counts of tokens, for the penalties.
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

  /// Allocates only occasionally: most calls need no memory.
  void add(int token);
  void add(std::span<const int> tokens);

  /// Returns one entry for each counted token, in the order of ids.
  std::span<const Count> counts() const { return counts_; }

 private:
  void remove(int token);

  std::optional<std::size_t> window_;
  std::vector<Count> counts_;
  std::vector<int> last_;   ///< with a window: the counted tokens, as a ring when it is full
  std::size_t oldest_ = 0;  ///< its index in the ring
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_TOKEN_COUNTS_H_
