// The unigram language model of SentencePiece (Kudo 2018): finds the most likely of all splits of a text.
#ifndef BALLAST_TEXT_SUBWORD_UNIGRAM_H_
#define BALLAST_TEXT_SUBWORD_UNIGRAM_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/subword/subword_model.h"
#include "text/subword/token_table.h"
#include "text/unicode/byte_trie.h"

namespace ballast::text {

/// Immutable; safe to use from several threads.
class Unigram : public SubwordModel {
 public:
  /// Bytes of text after which the search looks for a position that all splits share.
  static constexpr std::size_t kWindow = 8192;

  /// `model` is a `model` of type Unigram. Throws Error naming file and path.
  explicit Unigram(const files::JsonReader& model, std::size_t window = kWindow);

  /// Runs Viterbi's search. A run of characters without tokens becomes byte tokens, or one unknown token.
  void encode(std::string_view piece, std::vector<int>& ids) const override;

  const std::shared_ptr<const TokenTable>& texts() const { return texts_; }

 private:
  class Search;

  void add_unknown(std::string_view run, std::vector<int>& ids) const;

  std::size_t window_;
  std::shared_ptr<const TokenTable> texts_;
  std::vector<double> scores_;  // logarithms of probabilities, by id
  ByteTrie id_of_;
  int unknown_ = -1;
  double unknown_score_ = 0;
  std::optional<ByteTokens> byte_tokens_;
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_SUBWORD_UNIGRAM_H_
