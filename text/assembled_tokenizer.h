// What tokenizers of all kinds share: added tokens, special tokens, the files they came from.
#ifndef BALLAST_TEXT_ASSEMBLED_TOKENIZER_H_
#define BALLAST_TEXT_ASSEMBLED_TOKENIZER_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/readers/tokenizer_reader.h"
#include "text/readers/tokenizer_source.h"
#include "text/subword/token_table.h"
#include "text/tokenizer.h"

namespace ballast::text {

/// What a kind of tokenizer does with the text between added tokens.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  /// Appends the ids of `text` (valid UTF-8, not empty). `begins_input`: nothing comes before it. Safe to use from
  /// several threads.
  virtual void encode(std::string_view text, bool begins_input, std::vector<int>& ids) const = 0;
};

struct TokenizerParts {
  std::string data_name;  ///< the file that TokenizerSource::tokenizer_data belongs in
  std::string kind;       ///< "byte-level BPE"
  std::unique_ptr<TextEncoder> encoder;
  std::shared_ptr<const TokenTable> tokens;  ///< the vocabulary
  /// From a token's text in `tokens` to the bytes that it stands for; nothing where they are the same.
  std::function<std::string(std::string_view)> decode;
  bool byte_level = false;
  bool drops_first_space = false;
  SpecialTokens special;
};

std::unique_ptr<Tokenizer> assemble_tokenizer(TokenizerSource source, TokenizerParts parts);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_ASSEMBLED_TOKENIZER_H_
