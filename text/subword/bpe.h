// Byte-pair encoding of one piece of text (Sennrich et al. 2016; on bytes as in GPT-2, or on characters as in
// SentencePiece).
#ifndef BALLAST_TEXT_SUBWORD_BPE_H_
#define BALLAST_TEXT_SUBWORD_BPE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "text/subword/subword_model.h"
#include "text/subword/token_table.h"

namespace ballast::text {

/// The contents of a BPE model. The code that fills it checks the ids.
struct BpeVocabulary {
  enum class Unit { kByte, kCodePoint };
  struct Merge {
    int left;
    int right;
    int result;
  };

  std::shared_ptr<const TokenTable> tokens;  ///< the tokens' bytes
  std::vector<Merge> merges;                 ///< the first one has precedence; of two for one pair the last is used
  Unit unit = Unit::kByte;                   ///< the units from which merging starts
  bool ignore_merges = false;                ///< a piece that is a token is not split
  int unknown = -1;                          ///< replaces units that are not tokens; -1: such units are dropped
  bool fuse_unknown = false;                 ///< one `unknown` for a run of such units
  std::optional<ByteTokens> byte_tokens;     ///< encode a unit that is not a token
};

/// The pairs of tokens that merge, and their results. Large vocabularies have half a million pairs, so each is stored
/// in one word, grouped by left token.
class MergeRules {
 public:
  struct Rule {
    std::uint32_t rank;  ///< lower ones have precedence
    int result;
  };

  /// For ids below `tokens`. Throws Error if there are more tokens or rules than fit a word.
  MergeRules(const std::vector<BpeVocabulary::Merge>& merges, std::size_t tokens);

  /// Returns nullopt if the pair does not merge.
  std::optional<Rule> find(int left, int right) const;

 private:
  std::vector<std::uint32_t> ends_;   // of each left token's words
  std::vector<std::uint64_t> words_;  // right token, rank and result, from the top: ascending for each left token
};

/// Immutable but for a cache; safe to use from several threads.
class Bpe : public SubwordModel {
 public:
  /// The number of units that are merged at once, which limits the memory of merging.
  static constexpr std::size_t kWindowUnits = 8192;

  /// Throws Error as MergeRules does.
  explicit Bpe(BpeVocabulary vocabulary, std::size_t window_units = kWindowUnits);

  /// Appends the ids of `piece`. O(n log n).
  void encode(std::string_view piece, std::vector<int>& ids) const override;

 private:
  struct Symbol;
  class UnitReader;

  /// A token and the first of the units that it was merged from.
  struct Merged {
    int id;
    std::size_t begin;
  };

  // The result of merging a token's own bytes.
  enum Whole : std::uint8_t { kNotTried, kIsItself, kIsOthers };

  void find_word_ends();
  std::size_t word_length(std::string_view text) const;

  void encode_word(std::string_view word, std::vector<int>& ids) const;
  void merge(std::string_view piece, std::vector<int>& ids) const;
  std::vector<Merged> merged(std::span<const int> units) const;
  bool stay_apart(std::span<const int> left, std::span<const int> right) const;
  bool merge_in_windows(std::string_view piece, std::vector<int>& ids) const;

  BpeVocabulary vocabulary_;  // without merges
  std::size_t window_units_;
  MergeRules rules_;
  std::array<int, 256> byte_id_{};  // tokens of one byte, which most text starts from
  // SentencePiece's vocabularies do not split text into pieces, but hardly any token has a space mark after another
  // character: after a byte that no token has before an inner mark, the text can be split before a mark and its parts
  // merged separately.
  bool cut_words_ = false;
  std::array<bool, 256> joins_next_word_{};
  // Most pieces of text are one token. Whether merging gives that token is computed when it first occurs and then
  // stored in one byte per token.
  std::unique_ptr<std::atomic<std::uint8_t>[]> whole_;
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_SUBWORD_BPE_H_
