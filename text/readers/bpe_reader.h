// The `model` of a tokenizer.json when it is BPE.
#ifndef BALLAST_TEXT_READERS_BPE_READER_H_
#define BALLAST_TEXT_READERS_BPE_READER_H_

#include "files/json_reader.h"
#include "text/subword/bpe.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {

/// `vocabulary` is that of `model`; `byte_level`: written in the byte alphabet. Throws Error naming file and path for
/// an option that is not supported and for merges of unknown tokens.
BpeVocabulary read_bpe(const files::JsonReader& model, const Vocabulary& vocabulary, bool byte_level);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_BPE_READER_H_
