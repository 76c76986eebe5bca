// A map of strings to numbers that finds those with which a text begins.
#ifndef BALLAST_TEXT_UNICODE_BYTE_TRIE_H_
#define BALLAST_TEXT_UNICODE_BYTE_TRIE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ballast::text {

/// Immutable; safe to use from several threads.
class ByteTrie {
 public:
  struct Entry {
    std::string_view key;  ///< not empty; used only by the constructor
    int value;             ///< not negative
  };

  ByteTrie() = default;

  /// Of entries with the same key the first one is used.
  explicit ByteTrie(std::vector<Entry> entries);

  /// Calls visit(length, value) for every key with which `text` begins, the shortest first.
  template <typename Visit>
  void for_each_prefix(std::string_view text, const Visit& visit) const {
    if (text.empty()) return;
    std::uint32_t node = root_[static_cast<unsigned char>(text[0])];
    for (std::size_t end = 1; node != kNone; ++end) {
      if (nodes_[node].value >= 0) visit(end, nodes_[node].value);
      if (end == text.size()) return;
      node = child(node, static_cast<unsigned char>(text[end]));
    }
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;

  struct Node {
    std::uint32_t first_child;  // in nodes_ and bytes_; the next node has the end of these children
    int value;                  // -1: no key ends here
  };

  std::uint32_t child(std::uint32_t node, unsigned char byte) const {
    const auto begin = bytes_.begin() + nodes_[node].first_child;
    const auto end = bytes_.begin() + nodes_[node + 1].first_child;
    const auto found = std::lower_bound(begin, end, byte);
    return found == end || *found != byte ? kNone : static_cast<std::uint32_t>(found - bytes_.begin());
  }

  std::array<std::uint32_t, 256> root_ = [] {
    std::array<std::uint32_t, 256> none{};
    none.fill(kNone);
    return none;
  }();
  std::vector<Node> nodes_;           // level by level, children of one node adjacent; one more at the end
  std::vector<unsigned char> bytes_;  // the byte that leads to each node
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_UNICODE_BYTE_TRIE_H_
