// The tokenizer in a GGUF's metadata, brought into the form of Hugging Face's files.
#ifndef BALLAST_MODEL_TOKENIZER_GGUF_TOKENIZER_H_
#define BALLAST_MODEL_TOKENIZER_GGUF_TOKENIZER_H_

#include <optional>

#include "model/checkpoint/gguf.h"
#include "model/tokenizer/tokenizer_source.h"

namespace ballast::model {

/// Nothing when the file has no tokenizer. Throws Error naming file and key; a `tokenizer.ggml.model` other than "gpt2"
/// and "llama" and a `tokenizer.ggml.pre` that is not known are named.
std::optional<TokenizerSource> read_gguf_tokenizer(const GgufFile& file);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_TOKENIZER_GGUF_TOKENIZER_H_
