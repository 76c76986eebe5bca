// What tokenizer.json and tokenizer_config.json say beside the model: added and special tokens, the chat template.
#ifndef BALLAST_TEXT_READERS_TOKENIZER_READER_H_
#define BALLAST_TEXT_READERS_TOKENIZER_READER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "files/json_reader.h"
#include "text/pipeline/added_tokens.h"
#include "text/pipeline/post_processor.h"
#include "text/subword/token_table.h"

namespace ballast::text {

struct SpecialTokens {
  std::vector<AddedToken> added;
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

/// The template of `name` in the configuration's list of several; empty where there is no list, or none of that name.
std::string read_named_chat_template(const files::JsonReader& config, std::string_view name);

/// `separate` (from a file of its own) or, when that is empty, the configuration's template; empty when there is none.
std::string read_chat_template(const files::JsonReader& config, std::string separate);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_TOKENIZER_READER_H_
