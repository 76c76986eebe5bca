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

/// What a BPE model consists of. Ids are checked by who fills this in.
struct BpeVocabulary {
  enum class Unit { kByte, kCodePoint };
  struct Merge {
    int left;
    int right;
    int result;
  };

  std::shared_ptr<const TokenTable> tokens;  ///< the bytes that become the token
  std::vector<Merge> merges;                 ///< the first one has precedence; of two for one pair the last counts
  Unit unit = Unit::kByte;                   ///< what merging starts from
  bool ignore_merges = false;                ///< a piece that is a token stays whole
  int unknown = -1;                          ///< stands for units that are no token; -1: such units are left out
  bool fuse_unknown = false;                 ///< one `unknown` for a run of such units
  std::optional<ByteTokens> byte_tokens;     ///< spell a unit that is no token, if they can
};

/// Which pairs of tokens merge, and into what. Large vocabularies have half a million of them: they lie in one word
/// each, those of a left token side by side.
class MergeRules {
 public:
  struct Rule {
    std::uint32_t rank;  ///< lower ones have precedence
    int result;
  };

  /// For ids below `tokens`. Throws Error where there are more tokens or rules than fit a word.
  MergeRules(const std::vector<BpeVocabulary::Merge>& merges, std::size_t tokens);

  /// Nothing when the pair does not merge.
  std::optional<Rule> find(int left, int right) const;

 private:
  std::vector<std::uint32_t> ends_;   // of each left token's words
  std::vector<std::uint64_t> words_;  // right token, rank and result, from the top: ascending for each left token
};

/// Immutable but for a cache; safe to use from several threads.
class Bpe : public SubwordModel {
 public:
  /// Units that are merged at once: what merging needs of memory beside its result.
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

  // What is known of merging a token's own bytes.
  enum Whole : std::uint8_t { kNotTried, kIsItself, kIsOthers };

  void find_word_ends();
  std::size_t word_length(std::string_view text) const;

  void encode_word(std::string_view word, std::vector<int>& ids) const;
  void merge(std::string_view piece, std::vector<int>& ids) const;
  std::vector<Merged> merged(std::span<const int> units) const;
  bool stay_apart(std::span<const int> left, std::span<const int> right) const;
  bool merge_in_windows(std::string_view piece, std::vector<int>& ids) const;

  BpeVocabulary vocabulary_;  // without its merges
  std::size_t window_units_;
  MergeRules rules_;
  std::array<int, 256> byte_id_{};  // tokens of one byte, which most text starts from
  // SentencePiece's vocabularies have no pieces of text, but hardly a token has a space mark after another character:
  // after a byte that no token has before an inner mark, text can be cut before a mark and its parts be merged alone.
  bool cut_words_ = false;
  std::array<bool, 256> joins_next_word_{};
  // Most pieces of text are a token as a whole. Whether merging would arrive at that token is found out when it is
  // first met and then remembered, one byte per token.
  std::unique_ptr<std::atomic<std::uint8_t>[]> whole_;
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_SUBWORD_BPE_H_
