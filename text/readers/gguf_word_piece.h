// Reads WordPiece from a GGUF's metadata (tokenizer.ggml.model "bert").
#ifndef BALLAST_TEXT_READERS_GGUF_WORD_PIECE_H_
#define BALLAST_TEXT_READERS_GGUF_WORD_PIECE_H_

#include <nlohmann/json.hpp>

#include "files/gguf/gguf.h"
#include "text/readers/gguf_vocabulary.h"

namespace ballast::text {

/// Returns the tokenizer.json of such a vocabulary, in which llama.cpp's converter has marked the tokens that begin a
/// word instead of those that continue one; adds the names of its special tokens to `config`. If the file does not
/// specify lower-casing (converters before 2026), it is on unless the vocabulary has a capital letter. Throws Error.
nlohmann::json read_gguf_word_piece(const files::GgufFile& file, const GgufTexts& texts, nlohmann::json& config);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_GGUF_WORD_PIECE_H_
