// Reads a BPE `model` of a tokenizer.json.
#ifndef BALLAST_TEXT_READERS_BPE_READER_H_
#define BALLAST_TEXT_READERS_BPE_READER_H_

#include <memory>

#include "files/json_reader.h"
#include "text/subword/bpe.h"
#include "text/subword/token_table.h"

namespace ballast::text {

/// `vocabulary` is that of `model`. `byte_level`: it is written in the byte alphabet, so the result's tokens are bytes;
/// tokens outside of the alphabet keep their text and cannot be found. Throws Error naming file and path for an option
/// that is not supported and for merges of unknown tokens.
BpeVocabulary read_bpe(const files::JsonReader& model, const std::shared_ptr<const TokenTable>& vocabulary,
                       bool byte_level);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_BPE_READER_H_
