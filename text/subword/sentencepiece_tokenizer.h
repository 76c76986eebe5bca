// Tokenizers that are a SentencePiece model (tokenizer.model), run by that library.
#ifndef BALLAST_TEXT_SUBWORD_SENTENCEPIECE_TOKENIZER_H_
#define BALLAST_TEXT_SUBWORD_SENTENCEPIECE_TOKENIZER_H_

#include <memory>

#include "text/readers/tokenizer_source.h"
#include "text/tokenizer.h"

namespace ballast::text {

/// Ids are those of the library; control, unknown and user-defined symbols of the model and the configuration's added
/// tokens are recognized in the text. After such a token no space is added before the following text, unless the
/// configuration sets `legacy`. BOS is added unless the configuration has `add_bos_token: false`. Throws Error naming
/// the file.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(TokenizerSource source);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_SUBWORD_SENTENCEPIECE_TOKENIZER_H_
