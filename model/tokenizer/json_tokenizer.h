// Tokenizers as a tokenizer.json describes them.
#ifndef BALLAST_MODEL_TOKENIZER_JSON_TOKENIZER_H_
#define BALLAST_MODEL_TOKENIZER_JSON_TOKENIZER_H_

#include <memory>

#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/tokenizer_source.h"

namespace ballast::model {

/// Throws Error naming file and JSON path, or the kind of model when it is not supported.
std::unique_ptr<Tokenizer> make_tokenizer(TokenizerSource source);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_TOKENIZER_JSON_TOKENIZER_H_
