// Shared by the tests of docs/folds.md: on random tensors in F64, parts that the page calls redundant do not change the
// result, and parts that it calls necessary do.
#ifndef BALLAST_TESTS_SUPPORT_FOLD_CLAIMS_H_
#define BALLAST_TESTS_SUPPORT_FOLD_CLAIMS_H_

#include <doctest/doctest.h>

#include <cstddef>

#include "reference/attention.h"

namespace ballast::test {

inline constexpr std::size_t kHidden = 12;
inline constexpr std::size_t kTokens = 7;

inline void check_same(const Tokens& a, const Tokens& b) {
  CHECK(relative_change(a, b) <= 1e-12);
}

inline void check_different(const Tokens& a, const Tokens& b) {
  CHECK(relative_change(a, b) >= 1e-3);
}

template <typename Claim>
void for_random_tensors(const Claim& claim) {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    claim(random);
  }
}

/// Returns a block diagonal matrix with an orthogonal matrix (a Householder reflection) for each of `heads`.
inline Matrix orthogonal_heads(Random& random, std::size_t heads, std::size_t size) {
  const Vector normal = random.vector(size);
  Matrix result{heads * size, heads * size, Vector(heads * size * heads * size, 0.0)};
  for (std::size_t head = 0; head < heads; ++head) {
    for (std::size_t r = 0; r < size; ++r) {
      for (std::size_t c = 0; c < size; ++c) {
        result.at(head * size + r, head * size + c) =
            (r == c ? 1.0 : 0.0) - 2 * normal[r] * normal[c] / dot(normal, normal);
      }
    }
  }
  return result;
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_FOLD_CLAIMS_H_
