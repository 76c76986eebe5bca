// A set of strings with numbers, asked for those that a text begins with.
#ifndef BALLAST_TEXT_UNICODE_BYTE_TRIE_H_
#define BALLAST_TEXT_UNICODE_BYTE_TRIE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>

namespace ballast::text {

/// Immutable once filled; then safe to use from several threads.
class ByteTrie {
 public:
  /// `key` must not be empty; one that is there already keeps its value.
  void insert(std::string_view key, int value) {
    std::uint32_t node = 0;
    for (const char c : key) {
      const auto [child, is_new] = children_.try_emplace(edge(node, c), nodes_);
      if (is_new) ++nodes_;
      node = child->second;
    }
    value_at_node_.try_emplace(node, value);
    begins_key_[static_cast<unsigned char>(key[0])] = true;
  }

  /// Calls visit(length, value) for every key that `text` begins with, the shortest first.
  template <typename Visit>
  void for_each_prefix(std::string_view text, const Visit& visit) const {
    if (text.empty() || !begins_key_[static_cast<unsigned char>(text[0])]) return;
    std::uint32_t node = 0;
    for (std::size_t end = 0; end < text.size(); ++end) {
      const auto child = children_.find(edge(node, text[end]));
      if (child == children_.end()) return;
      node = child->second;
      const auto value = value_at_node_.find(node);
      if (value != value_at_node_.end()) visit(end + 1, value->second);
    }
  }

 private:
  static std::uint64_t edge(std::uint32_t node, char c) {
    return std::uint64_t{node} << 8 | static_cast<unsigned char>(c);
  }

  std::unordered_map<std::uint64_t, std::uint32_t> children_;  // edge -> node; node 0 is the root
  std::unordered_map<std::uint32_t, int> value_at_node_;
  std::uint32_t nodes_ = 1;
  std::array<bool, 256> begins_key_{};
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_UNICODE_BYTE_TRIE_H_
