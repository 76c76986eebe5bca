#include "text/unicode/byte_trie.h"

#include <utility>

namespace ballast::text {

ByteTrie::ByteTrie(std::vector<Entry> entries) {
  std::ranges::stable_sort(entries, {}, &Entry::key);
  const auto repeated = std::ranges::unique(entries, {}, &Entry::key);
  entries.erase(repeated.begin(), repeated.end());

  // The entries below each node of a level; all of them share their first `depth` bytes.
  using Range = std::pair<std::size_t, std::size_t>;
  std::vector<Range> level{{0, entries.size()}};
  for (std::size_t depth = 0; !level.empty(); ++depth) {
    std::vector<Range> next;
    const std::size_t first = nodes_.size();
    for (std::size_t parent = 0; parent < level.size(); ++parent) {
      if (depth > 0) nodes_[first - level.size() + parent].first_child = static_cast<std::uint32_t>(nodes_.size());
      auto [begin, end] = level[parent];
      if (begin < end && entries[begin].key.size() == depth) ++begin;
      while (begin < end) {
        const char byte = entries[begin].key[depth];
        std::size_t same = begin;
        while (same < end && entries[same].key[depth] == byte) ++same;
        const auto node = static_cast<std::uint32_t>(nodes_.size());
        if (depth == 0) root_[static_cast<unsigned char>(byte)] = node;
        nodes_.push_back({0, entries[begin].key.size() == depth + 1 ? entries[begin].value : -1});
        bytes_.push_back(static_cast<unsigned char>(byte));
        next.emplace_back(begin, same);
        begin = same;
      }
    }
    level = std::move(next);
  }
  nodes_.push_back({static_cast<std::uint32_t>(nodes_.size()), -1});
  nodes_.shrink_to_fit();
  bytes_.shrink_to_fit();
}

}  // namespace ballast::text
