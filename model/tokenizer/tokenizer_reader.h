// What tokenizer.json and tokenizer_config.json say beside the model: added and special tokens, the chat template.
#ifndef BALLAST_MODEL_TOKENIZER_TOKENIZER_READER_H_
#define BALLAST_MODEL_TOKENIZER_TOKENIZER_READER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "model/tokenizer/added_tokens.h"
#include "model/tokenizer/checked_json.h"
#include "model/tokenizer/post_processor.h"

namespace ballast::model {

struct SpecialTokens {
  std::vector<AddedToken> added;
  std::size_t size = 0;  ///< largest id + 1, the vocabulary's own included
  std::optional<int> bos;
  std::optional<int> eos;
  TextFrame frame;  ///< what belongs around every text
};

/// `vocabulary`: the model's tokens by id, empty for ids that no token has. Throws Error where a file contradicts
/// itself or the vocabulary.
SpecialTokens read_special_tokens(const CheckedJson& tokenizer, const CheckedJson& config,
                                  const std::vector<std::string>& vocabulary);

/// `separate` (from a file of its own) or, when that is empty, the configuration's template; empty when there is none.
std::string read_chat_template(const CheckedJson& config, std::string separate);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_TOKENIZER_TOKENIZER_READER_H_
