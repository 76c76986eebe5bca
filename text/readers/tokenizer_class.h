// The class that transformers 5 chooses for the tokenizer of a directory.
#ifndef BALLAST_TEXT_READERS_TOKENIZER_CLASS_H_
#define BALLAST_TEXT_READERS_TOKENIZER_CLASS_H_

#include "files/json_reader.h"

namespace ballast::text {

/// The classes of encoder-decoder models, which determine more than their files say.
enum class TokenizerClass { kOther, kT5, kByT5, kMarian, kM2M100, kNllb, kMBart, kMBart50, kPegasus };

/// Follows transformers' AutoTokenizer: `config` (tokenizer_config.json) names the class, else `model_config`
/// (config.json) does, or its model_type. `has_json`: there is a tokenizer.json.
TokenizerClass find_tokenizer_class(const files::JsonReader& config, const files::JsonReader& model_config,
                                    bool has_json);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_TOKENIZER_CLASS_H_
