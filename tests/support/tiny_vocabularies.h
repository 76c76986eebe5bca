// Vocabularies of ranks and maps of characters that are small enough for tests.
#ifndef BALLAST_TESTS_SUPPORT_TINY_VOCABULARIES_H_
#define BALLAST_TESTS_SUPPORT_TINY_VOCABULARIES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::test {

inline std::string in_base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned bits = 0;
    for (std::size_t k = i; k < i + 3; ++k) {
      bits = bits << 8 | (k < bytes.size() ? static_cast<unsigned char>(bytes[k]) : 0u);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += i + k > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * k) & 63u];
    }
  }
  return text;
}

/// Returns the 256 bytes, ranks 0 to 255, and the given tokens from 256 on.
inline std::vector<std::string> ranked_tokens(const std::vector<std::string>& more) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

/// Returns them in the format of a tiktoken.model.
inline std::string rank_list(const std::vector<std::string>& more) {
  std::string lines;
  std::size_t rank = 0;
  for (const std::string& token : ranked_tokens(more)) lines += in_base64(token) + " " + std::to_string(rank++) + "\n";
  return lines;
}

/// Returns them in the format of a tekken.json's field `vocab`.
inline nlohmann::json tekken_vocab(const std::vector<std::string>& more) {
  nlohmann::json vocab = nlohmann::json::array();
  for (const std::string& token : ranked_tokens(more)) {
    vocab.push_back({{"rank", vocab.size()}, {"token_bytes", in_base64(token)}, {"token_str", nullptr}});
  }
  return vocab;
}

inline std::string little_endian(std::uint32_t number) {
  std::string bytes;
  for (unsigned shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(number >> shift & 0xFFu);
  return bytes;
}

/// Returns a compiled map. `rules`: the replacement of each sequence.
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

#endif  // BALLAST_TESTS_SUPPORT_TINY_VOCABULARIES_H_
