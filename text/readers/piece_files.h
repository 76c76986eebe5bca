// Reads tokenizers of translation models that are SentencePiece models with a separate vocabulary: Marian, M2M-100.
#ifndef BALLAST_TEXT_READERS_PIECE_FILES_H_
#define BALLAST_TEXT_READERS_PIECE_FILES_H_

#include <filesystem>
#include <memory>

#include "text/readers/tokenizer_source.h"
#include "text/tokenizer.h"

namespace ballast::text {

/// Reads source.spm, target.spm, vocab.json and, with `separate_vocabs`, target_vocab.json, which decodes.
/// `source.config` is tokenizer_config.json as it was read. Both return null if `directory` has no vocab.json, and
/// throw Error naming a file that is damaged or missing.
std::unique_ptr<Tokenizer> read_marian(const std::filesystem::path& directory, TokenizerSource source);

/// Reads sentencepiece.bpe.model and vocab.json. The tokens of the languages, "__en__", follow the vocabulary.
std::unique_ptr<Tokenizer> read_m2m100(const std::filesystem::path& directory, TokenizerSource source);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_PIECE_FILES_H_
