// Vocabularies of ranks that are small enough to be followed by hand.
#ifndef BALLAST_TESTS_SUPPORT_RANKED_TOKENS_H_
#define BALLAST_TESTS_SUPPORT_RANKED_TOKENS_H_

#include <cstddef>
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

/// The 256 bytes, ranks 0 to 255, and what is given from 256 on.
inline std::vector<std::string> ranked_tokens(const std::vector<std::string>& more) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

/// As in a tiktoken.model.
inline std::string rank_list(const std::vector<std::string>& more) {
  std::string lines;
  std::size_t rank = 0;
  for (const std::string& token : ranked_tokens(more)) lines += in_base64(token) + " " + std::to_string(rank++) + "\n";
  return lines;
}

/// As in a tekken.json, the field `vocab`.
inline nlohmann::json tekken_vocab(const std::vector<std::string>& more) {
  nlohmann::json vocab = nlohmann::json::array();
  for (const std::string& token : ranked_tokens(more)) {
    vocab.push_back({{"rank", vocab.size()}, {"token_bytes", in_base64(token)}, {"token_str", nullptr}});
  }
  return vocab;
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_RANKED_TOKENS_H_
