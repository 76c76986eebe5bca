// Text encoders that are a SentencePiece model whose pieces have their ids in a separate vocabulary.
#ifndef BALLAST_TEXT_SUBWORD_PIECE_ENCODER_H_
#define BALLAST_TEXT_SUBWORD_PIECE_ENCODER_H_

#include <memory>
#include <string>
#include <string_view>

#include "text/assembled_tokenizer.h"
#include "text/subword/token_table.h"

namespace ballast::text {

struct PieceModel {
  std::string bytes;  ///< the SentencePiece model
  std::string file;   ///< names it in messages
  std::shared_ptr<const TokenTable> vocabulary;
  int unknown = 0;              ///< the id of pieces that are not in the vocabulary
  bool language_codes = false;  ///< ">>code<<" at the beginning of a text is one token
};

/// Throws Error naming the file if it is not a SentencePiece model.
std::unique_ptr<TextEncoder> make_piece_encoder(PieceModel model);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_SUBWORD_PIECE_ENCODER_H_
