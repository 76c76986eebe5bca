#include "text/pipeline/token_decoder.h"

#include "files/text.h"
#include "text/pipeline/nesting.h"
#include "text/subword/vocabulary.h"
#include "text/unicode/byte_alphabet.h"

namespace ballast::text {
TokenDecoder::TokenDecoder(const std::optional<files::JsonReader>& decoder, bool byte_level) : byte_level_(byte_level) {
  if (decoder) add_node(*decoder, 0);
}

void TokenDecoder::add_node(const files::JsonReader& node, int depth) {
  check_nesting(node, depth);
  const std::string type = node.text("type");
  if (type == "Sequence") {
    for (const files::JsonReader& child : node.at("decoders").elements()) add_node(child, depth + 1);
  } else if (type == "ByteLevel") {
    byte_level_ = true;
  } else if (type == "ByteFallback") {
    byte_tokens_ = true;
  } else if (type == "Strip") {
    add_strip(node);
  } else if (type == "Replace") {
    const files::JsonReader from = node.at("pattern").at("String");
    if (from.string().empty()) from.fail("is empty");
    replacements_.emplace_back(from.string(), node.at("content").string());
  } else if (type == "Metaspace") {
    replacements_.emplace_back(node.at("replacement").string(), " ");
    if (replacements_.back().first.empty()) node.at("replacement").fail("is empty");
    const std::optional<files::JsonReader> scheme = node.find("prepend_scheme");
    drops_first_space_ = scheme ? scheme->string() != "never" : node.flag("add_prefix_space", true);
  } else if (type == "WordPiece") {
    continuing_prefix_ = node.at("prefix").string();
    drops_first_space_ = true;
  } else if (type != "Fuse") {
    node.fail("decoder " + files::in_quotes(type) + " is not supported");
  }
}

void TokenDecoder::add_strip(const files::JsonReader& node) {
  const std::int64_t start = node.at("start").integer();
  if (start == 0 && node.at("stop").integer() == 0) return;
  if (node.at("content").string() != " " || start != 1 || node.at("stop").integer() != 0) {
    node.fail("only one leading space can be stripped");
  }
  drops_first_space_ = true;
}

std::string TokenDecoder::bytes(std::string_view token) const {
  if (byte_level_) {
    if (std::optional<std::string> bytes = bytes_of_alphabet(token)) return *std::move(bytes);
    return std::string(token);
  }
  if (byte_tokens_) {
    if (const std::optional<unsigned char> byte = byte_of_token(token)) return {static_cast<char>(*byte)};
  }
  if (continuing_prefix_) {
    if (!token.starts_with(*continuing_prefix_)) return " " + std::string(token);
    token.remove_prefix(continuing_prefix_->size());
  }
  std::string text(token);
  for (const auto& [from, to] : replacements_) text = replace_all(text, from, to);
  return text;
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  while (true) {
    const std::size_t found = text.find(from);
    result += text.substr(0, found);
    if (found == std::string_view::npos) return result;
    result += to;
    text.remove_prefix(found + from.size());
  }
}

}  // namespace ballast::text
