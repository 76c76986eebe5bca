// Converts a token of the vocabulary to bytes of text.
#ifndef BALLAST_TEXT_PIPELINE_TOKEN_DECODER_H_
#define BALLAST_TEXT_PIPELINE_TOKEN_DECODER_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/json_reader.h"

namespace ballast::text {

/// The `decoder` of a tokenizer.json, token by token.
class TokenDecoder {
 public:
  /// Supports Sequence, ByteLevel, Metaspace, WordPiece, Replace, ByteFallback, Fuse and a Strip of one leading space;
  /// throws Error naming any other node. Without a decoder tokens are their own text, or in the byte alphabet if
  /// `byte_level`.
  TokenDecoder(const std::optional<files::JsonReader>& decoder, bool byte_level);

  std::string bytes(std::string_view token) const;

  /// Returns whether a space at the beginning of a text's first token was added by the tokenizer.
  bool drops_first_space() const { return drops_first_space_; }

 private:
  void add_node(const files::JsonReader& node, int depth);
  void add_strip(const files::JsonReader& node);

  bool byte_level_ = false;
  bool byte_tokens_ = false;
  bool drops_first_space_ = false;
  std::optional<std::string> continuing_prefix_;  // WordPiece: tokens without it begin a word
  std::vector<std::pair<std::string, std::string>> replacements_;
};

/// Returns `text` with every `from` (not empty) replaced by `to`.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_PIPELINE_TOKEN_DECODER_H_
