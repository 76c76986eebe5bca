#include "text/subword/vocabulary.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "files/text.h"

namespace ballast::text {

int read_token_id(const files::JsonReader& node) {
  return node.integer<int>(0, kMaxTokenId);
}

std::vector<int> read_token_ids(const files::JsonReader& config, std::string_view field) {
  const std::optional<files::JsonReader> value = config.find(field);
  if (!value) return {};
  std::vector<int> ids = value->json().is_array() ? value->integers<int>(-1) : std::vector{value->integer<int>(-1)};
  std::erase(ids, -1);
  return ids;
}

void check_dense(const files::JsonReader& node, std::size_t ids, std::size_t size) {
  constexpr std::size_t kAlwaysAllowed = 4096;
  if (size > 2 * ids + kAlwaysAllowed) {
    node.fail(std::to_string(ids) + " tokens have ids up to " + std::to_string(size - 1) + "; the file is damaged");
  }
}

std::shared_ptr<const TokenTable> read_vocabulary(const files::JsonReader& vocab) {
  const auto members = vocab.members();
  std::vector<std::string_view> texts;
  std::vector<bool> taken;
  std::size_t bytes = 0;
  for (const auto& [text, id] : members) {
    const auto index = static_cast<std::size_t>(read_token_id(id));
    if (index >= texts.size()) {
      texts.resize(index + 1);
      taken.resize(index + 1);
    }
    if (taken[index]) {
      vocab.fail("id " + std::to_string(index) + " is given twice, once to " + files::in_quotes(text));
    }
    taken[index] = true;
    texts[index] = text;
    bytes += text.size();
  }
  check_dense(vocab, members.size(), texts.size());
  auto table = std::make_shared<TokenTable>();
  table->reserve(texts.size(), bytes);
  for (const std::string_view text : texts) table->add(text);
  return table;
}

std::optional<unsigned char> byte_of_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  unsigned byte = 0;
  const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, byte, 16);
  if (error != std::errc() || end != text.data() + 5) return std::nullopt;
  return static_cast<unsigned char>(byte);
}

std::string byte_token(unsigned char byte) {
  constexpr std::string_view kHexDigits = "0123456789ABCDEF";
  return std::string("<0x") + kHexDigits[byte >> 4] + kHexDigits[byte & 15u] + '>';
}

std::optional<ByteTokens> find_byte_tokens(const TokenTable& texts) {
  ByteTokens tokens;
  tokens.fill(-1);
  bool any = false;
  for (std::size_t id = 0; id < texts.size(); ++id) {
    const std::optional<unsigned char> byte = byte_of_token(texts[id]);
    if (!byte || texts[id] != byte_token(*byte)) continue;
    tokens[*byte] = static_cast<int>(id);
    any = true;
  }
  return any ? std::optional(tokens) : std::nullopt;
}

}  // namespace ballast::text
