// Reads the tokenizer in a GGUF's metadata into the form of Hugging Face's files.
#ifndef BALLAST_TEXT_READERS_GGUF_TOKENIZER_H_
#define BALLAST_TEXT_READERS_GGUF_TOKENIZER_H_

#include <optional>

#include "files/gguf/gguf.h"
#include "text/readers/tokenizer_source.h"

namespace ballast::text {

/// Returns nullopt if the file has no tokenizer. Throws Error naming file and key, and an unknown value of
/// `tokenizer.ggml.model` or `tokenizer.ggml.pre`.
std::optional<TokenizerSource> read_gguf_tokenizer(const files::GgufFile& file);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_GGUF_TOKENIZER_H_
