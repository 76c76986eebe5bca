// Reads SentencePiece's unigram model from a GGUF's metadata (tokenizer.ggml.model "t5").
#ifndef BALLAST_TEXT_READERS_GGUF_UNIGRAM_H_
#define BALLAST_TEXT_READERS_GGUF_UNIGRAM_H_

#include <nlohmann/json.hpp>

#include "files/gguf/gguf.h"
#include "text/readers/gguf_vocabulary.h"

namespace ballast::text {

/// Returns the tokenizer.json of such a model, with its compiled normalization rules, and adds the names of its special
/// tokens to `config`. Throws Error.
nlohmann::json read_gguf_unigram(const files::GgufFile& file, const GgufTexts& texts, nlohmann::json& config);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_GGUF_UNIGRAM_H_
