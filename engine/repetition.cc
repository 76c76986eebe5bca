#include "engine/repetition.h"

namespace ballast::engine {

Repetition find_repetition(std::span<const int> tokens) {
  Repetition best;
  if (tokens.size() < 2) return best;
  const std::size_t end = tokens.size() - 1;
  for (std::size_t at = end; at-- > 0 && best.length < Repetition::kLongest;) {
    if (tokens[at] != tokens[end]) continue;
    std::size_t length = 1;
    while (length < Repetition::kLongest && length <= at && tokens[at - length] == tokens[end - length]) ++length;
    if (length > best.length) best = {.next = at + 1, .length = length};
  }
  return best;
}

}  // namespace ballast::engine
