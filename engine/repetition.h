// Finds what a text repeats.
#ifndef BALLAST_ENGINE_REPETITION_H_
#define BALLAST_ENGINE_REPETITION_H_

#include <cstddef>
#include <span>

namespace ballast::engine {

/// An earlier occurrence of the last tokens.
struct Repetition {
  std::size_t next = 0;    ///< index of the token that followed them there
  std::size_t length = 0;  ///< tokens that are repeated, at most kLongest; 0: none

  static constexpr std::size_t kLongest = 8;
};

/// Returns the longest repetition of the end of `tokens`, of equally long ones the latest (prompt lookup decoding,
/// Saxena 2023).
Repetition find_repetition(std::span<const int> tokens);

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_REPETITION_H_
