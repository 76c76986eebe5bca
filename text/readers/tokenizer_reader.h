// What tokenizer.json and tokenizer_config.json say beside the model: added and special tokens, the chat template.
#ifndef BALLAST_TEXT_READERS_TOKENIZER_READER_H_
#define BALLAST_TEXT_READERS_TOKENIZER_READER_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "files/json_reader.h"
#include "text/pipeline/added_tokens.h"
#include "text/pipeline/post_processor.h"
#include "text/subword/token_table.h"

namespace ballast::text {

/// A token with the text of another one.
struct RepeatedToken {
  int id = 0;
  int same_as = 0;  ///< the one that the text becomes
  bool special = false;
};

struct SpecialTokens {
  std::vector<AddedToken> added;
  std::vector<RepeatedToken> repeated;
  std::size_t size = 0;  ///< largest id + 1, the vocabulary's own included
  std::optional<int> bos;
  std::optional<int> eos;
  TextFrame frame;  ///< what belongs around every text
};

/// `vocabulary`: the model's tokens. Throws Error where a file contradicts
/// itself or the vocabulary.
SpecialTokens read_special_tokens(const files::JsonReader& tokenizer, const files::JsonReader& config,
                                  const TokenTable& vocabulary);

/// The text of a special token, which is written "name" or {"content": "name", ...}.
std::string read_token_content(const files::JsonReader& token);

/// Tokenizer::special_tokens() by a tokenizer_config.json.
nlohmann::json read_special_token_names(const files::JsonReader& config);

/// The template of `name` where `config.chat_template` holds several, a list of {"name": ..., "template": ...} or an
/// object by name; empty where it is one template, or has none of that name.
std::string read_named_chat_template(const files::JsonReader& config, std::string_view name);

/// The template for all conversations; of several the one that is called "default", or the only one. Empty when there
/// is none.
std::string read_chat_template(const files::JsonReader& config);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_TOKENIZER_READER_H_
