// Reads the parts of tokenizer.json and tokenizer_config.json other than the model: added and special tokens, the chat
// template.
#ifndef BALLAST_TEXT_READERS_TOKENIZER_READER_H_
#define BALLAST_TEXT_READERS_TOKENIZER_READER_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/json_reader.h"
#include "text/pipeline/added_tokens.h"
#include "text/pipeline/post_processor.h"
#include "text/subword/token_table.h"

namespace ballast::text {

/// A token with the text of another one.
struct RepeatedToken {
  int id = 0;
  int same_as = 0;  ///< the token that the text is encoded to
  bool special = false;
};

struct SpecialTokens {
  std::vector<AddedToken> added;
  std::vector<RepeatedToken> repeated;
  std::size_t size = 0;  ///< largest id + 1, including the vocabulary
  std::optional<int> bos;
  std::optional<int> eos;
  TokenTemplate frame;  ///< tokens around every text
};

/// `vocabulary` has the model's tokens. Throws Error if a file contradicts itself or the vocabulary.
SpecialTokens read_special_tokens(const files::JsonReader& tokenizer, const files::JsonReader& config,
                                  const TokenTable& vocabulary);

/// Returns the id that is the name `key` of a member of `object`.
int read_id_key(const files::JsonReader& object, std::string_view key);

/// Returns the text of a special token, which is written "name" or {"content": "name", ...}.
std::string read_token_content(const files::JsonReader& token);

/// Returns Tokenizer::special_tokens() for a tokenizer_config.json.
nlohmann::json read_special_token_names(const files::JsonReader& config);

/// Returns the template with the name `name` if `config.chat_template` has several, as a list of {"name": ...,
/// "template": ...} or an object by name; empty if it has one template, or none of that name.
std::string read_named_chat_template(const files::JsonReader& config, std::string_view name);

/// Returns the template for all conversations; of several the one named "default", or the only one. Empty if there is
/// none.
std::string read_chat_template(const files::JsonReader& config);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_TOKENIZER_READER_H_
