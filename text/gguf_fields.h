// Writes a tokenizer as a GGUF's metadata.
#ifndef BALLAST_TEXT_GGUF_FIELDS_H_
#define BALLAST_TEXT_GGUF_FIELDS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "files/checkpoint.h"
#include "files/gguf/gguf_writer.h"

namespace ballast::text {

/// Returns the fields that llama.cpp needs for a model whose embedding has `vocab_size` rows and whose texts also end
/// with `end_tokens`; empty if the checkpoint has no tokenizer. Tokens without a row are left out. Throws Error naming
/// the checkpoint if its tokenizer is neither a byte-level BPE with a splitting that llama.cpp has, nor a BPE with
/// SentencePiece's spelling.
std::vector<files::GgufField> gguf_tokenizer_fields(const files::Checkpoint& checkpoint, std::size_t vocab_size,
                                                    std::span<const int> end_tokens);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_GGUF_FIELDS_H_
