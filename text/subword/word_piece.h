// WordPiece: the longest token first, from left to right (Wu et al. 2016; as in BERT).
#ifndef BALLAST_TEXT_SUBWORD_WORD_PIECE_H_
#define BALLAST_TEXT_SUBWORD_WORD_PIECE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/subword/subword_model.h"
#include "text/subword/token_table.h"

namespace ballast::text {

/// Immutable; safe to use from several threads.
class WordPiece : public SubwordModel {
 public:
  /// `model` is a `model` of type WordPiece, `vocabulary` its own. Throws Error naming file and path.
  WordPiece(const files::JsonReader& model, std::shared_ptr<const TokenTable> vocabulary);

  /// Encodes one word; a word that the vocabulary cannot spell becomes one unknown token.
  void encode(std::string_view word, std::vector<int>& ids) const override;

 private:
  bool add_pieces(std::string_view word, std::vector<int>& ids) const;

  std::shared_ptr<const TokenTable> vocabulary_;
  std::string continuing_prefix_;  // of tokens that continue a word
  std::size_t longest_ = 0;        // bytes of the longest token
  std::size_t max_characters_ = 0;
  int unknown_ = 0;
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_SUBWORD_WORD_PIECE_H_
