// A range of bytes of a text.
#ifndef BALLAST_TEXT_BYTE_RANGE_H_
#define BALLAST_TEXT_BYTE_RANGE_H_

#include <algorithm>
#include <cstddef>
#include <span>

namespace ballast::text {

struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Returns whether a byte of [begin, end) is in one of `ranges`, which are ordered and disjoint.
inline bool overlaps_any(std::span<const ByteRange> ranges, std::size_t begin, std::size_t end) {
  const auto first = std::ranges::upper_bound(ranges, begin, {}, &ByteRange::end);
  return first != ranges.end() && first->begin < end;
}

}  // namespace ballast::text

#endif  // BALLAST_TEXT_BYTE_RANGE_H_
