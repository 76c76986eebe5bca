// The common part of all tokenizers: added tokens, special tokens, and the files they came from.
#ifndef BALLAST_TEXT_ASSEMBLED_TOKENIZER_H_
#define BALLAST_TEXT_ASSEMBLED_TOKENIZER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/language_tokens.h"
#include "text/readers/tokenizer_reader.h"
#include "text/readers/tokenizer_source.h"
#include "text/subword/token_table.h"
#include "text/tokenizer.h"

namespace ballast::text {

/// Encodes the text between added tokens; one implementation per kind of tokenizer.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  /// Appends the ids of `text` (valid UTF-8, not empty). `begins_input`: nothing precedes it. Safe to use from several
  /// threads.
  virtual void encode(std::string_view text, bool begins_input, std::vector<int>& ids) const = 0;
};

struct TokenizerParts {
  std::string data_name;  ///< the file of TokenizerSource::tokenizer_data
  std::string kind;       ///< "byte-level BPE"
  std::unique_ptr<TextEncoder> encoder;
  std::unique_ptr<TextEncoder> target_encoder = nullptr;  ///< of a decoder's text; null: `encoder`
  std::shared_ptr<const TokenTable> tokens;               ///< the vocabulary
  /// Maps a token's text in `tokens` to its bytes; null if they are equal.
  std::function<std::string(std::string_view)> decode;
  bool byte_level = false;
  bool drops_first_space = false;
  DecodingRules decoding_rules = {};
  SpecialTokens special;
  std::optional<LanguageTokens> languages;  ///< set the tokens around a text; `special` has none then
};

std::unique_ptr<Tokenizer> assemble_tokenizer(TokenizerSource source, TokenizerParts parts);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_ASSEMBLED_TOKENIZER_H_
