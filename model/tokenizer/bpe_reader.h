// The `model` of a tokenizer.json when it is BPE.
#ifndef BALLAST_MODEL_TOKENIZER_BPE_READER_H_
#define BALLAST_MODEL_TOKENIZER_BPE_READER_H_

#include "model/tokenizer/bpe.h"
#include "model/tokenizer/checked_json.h"
#include "model/tokenizer/vocabulary.h"

namespace ballast::model {

/// `vocabulary` is that of `model`; `byte_level`: written in the byte alphabet. Throws Error naming file and path for
/// an option that is not supported and for merges of unknown tokens.
BpeVocabulary read_bpe(const CheckedJson& model, const Vocabulary& vocabulary, bool byte_level);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_TOKENIZER_BPE_READER_H_
