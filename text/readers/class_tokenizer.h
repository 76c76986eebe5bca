// Tokenizers whose steps transformers 5 builds from their class: T5, NLLB, mBART and PEGASUS. Of the files it only uses
// the vocabulary, the normalization rules and the special tokens.
#ifndef BALLAST_TEXT_READERS_CLASS_TOKENIZER_H_
#define BALLAST_TEXT_READERS_CLASS_TOKENIZER_H_

#include <filesystem>
#include <memory>

#include "text/readers/tokenizer_class.h"
#include "text/readers/tokenizer_source.h"
#include "text/tokenizer.h"

namespace ballast::text {

/// Reads tokenizer.json or, without one, the SentencePiece model of the class (spiece.model, sentencepiece.bpe.model)
/// in `directory`. `source.config` is tokenizer_config.json as it was read. Returns null if there is neither file.
/// Throws Error naming the file.
std::unique_ptr<Tokenizer> read_class_tokenizer(TokenizerClass tokenizer_class, const std::filesystem::path& directory,
                                                TokenizerSource source);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_CLASS_TOKENIZER_H_
