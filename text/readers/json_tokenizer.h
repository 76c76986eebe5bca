// Creates tokenizers from a tokenizer.json.
#ifndef BALLAST_TEXT_READERS_JSON_TOKENIZER_H_
#define BALLAST_TEXT_READERS_JSON_TOKENIZER_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "text/language_tokens.h"
#include "text/readers/tokenizer_source.h"
#include "text/tokenizer.h"

namespace ballast::text {

/// Throws Error naming file and JSON path, or the kind of model if it is not supported.
std::unique_ptr<Tokenizer> make_tokenizer(TokenizerSource source);

/// Properties that a tokenizer.json does not have.
struct ClassProperties {
  std::optional<LanguageTokens> languages;  ///< set the tokens around a text
  DecodingRules decoding_rules = {};
};

/// Does the same with `value` as the tokenizer.json; `source.tokenizer_data` is only returned by Tokenizer::files().
std::unique_ptr<Tokenizer> make_tokenizer(TokenizerSource source, const nlohmann::json& value,
                                          ClassProperties properties);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_JSON_TOKENIZER_H_
