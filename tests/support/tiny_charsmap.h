// A compiled map of characters, each node of its trie in 256 units of its own.
#ifndef BALLAST_TESTS_SUPPORT_TINY_CHARSMAP_H_
#define BALLAST_TESTS_SUPPORT_TINY_CHARSMAP_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::test {

inline std::string little_endian(std::uint32_t number) {
  std::string bytes;
  for (unsigned shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(number >> shift & 0xFFu);
  return bytes;
}

/// `rules`: what becomes of a sequence.
inline std::string charsmap(const std::map<std::string, std::string>& rules) {
  std::vector<std::map<unsigned char, std::size_t>> children(1);  // of node n, which has the units from 256 (n + 1) on
  std::map<std::size_t, std::uint32_t> values;
  std::string texts;
  for (const auto& [sequence, text] : rules) {
    std::size_t node = 0;
    for (const char c : sequence) {
      const auto [child, is_new] = children[node].try_emplace(static_cast<unsigned char>(c), children.size());
      node = child->second;
      if (is_new) children.emplace_back();
    }
    values[node] = static_cast<std::uint32_t>(texts.size());
    texts += text + '\0';
  }
  std::vector<std::uint32_t> units(256 * (children.size() + 1));
  const auto begin = [](std::size_t node) { return static_cast<std::uint32_t>(256 * (node + 1)); };
  units[0] = begin(0) << 10;
  for (std::size_t node = 0; node < children.size(); ++node) {
    if (values.contains(node)) units[begin(node)] = values[node] | 0x80000000u;
    for (const auto& [byte, child] : children[node]) {
      const std::uint32_t place = begin(node) ^ byte;
      units[place] = (place ^ begin(child)) << 10 | (values.contains(child) ? 0x100u : 0u) | byte;
    }
  }
  std::string bytes = little_endian(static_cast<std::uint32_t>(4 * units.size()));
  for (const std::uint32_t unit : units) bytes += little_endian(unit);
  return bytes + texts;
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_TINY_CHARSMAP_H_
