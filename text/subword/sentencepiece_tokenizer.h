// Tokenizers that are a SentencePiece model (tokenizer.model), run by that library.
#ifndef BALLAST_TEXT_SUBWORD_SENTENCEPIECE_TOKENIZER_H_
#define BALLAST_TEXT_SUBWORD_SENTENCEPIECE_TOKENIZER_H_

#include <memory>

#include "text/readers/tokenizer_source.h"
#include "text/tokenizer.h"

namespace ballast::text {

/// Ids are those of the library; control, unknown and user-defined symbols of the model and the configuration's added
/// tokens are recognised in the text. Behind such a token no space is put in front of the text that follows, unless the
/// configuration says `legacy`. BOS is added unless the configuration says `add_bos_token: false`. Throws Error naming
/// the file.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(TokenizerSource source);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_SUBWORD_SENTENCEPIECE_TOKENIZER_H_
