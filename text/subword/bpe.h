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
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/subword/subword_model.h"

namespace ballast::text {

/// What a BPE model consists of. Ids are checked by who fills this in.
struct BpeVocabulary {
  enum class Unit { kByte, kCodePoint };
  struct Merge {
    int left;
    int right;
    int result;
  };

  std::vector<std::string> tokens;        ///< by id: the bytes that become the token; empty where none do
  std::vector<Merge> merges;              ///< the first one has precedence
  Unit unit = Unit::kByte;                ///< what merging starts from
  bool ignore_merges = false;             ///< a piece that is a token stays whole
  int unknown = -1;                       ///< stands for units that are no token; -1: such units are left out
  bool fuse_unknown = false;              ///< one `unknown` for a run of such units
  std::optional<ByteTokens> byte_tokens;  ///< spell a unit that is no token, if they can
};

/// Immutable but for a cache; safe to use from several threads.
class Bpe : public SubwordModel {
 public:
  explicit Bpe(BpeVocabulary vocabulary);

  /// Appends the ids of `piece`. O(n log n).
  void encode(std::string_view piece, std::vector<int>& ids) const override;

 private:
  struct Symbol;
  struct Rule {
    int rank;
    int result;
  };
  // What is known of merging a token's own bytes.
  enum Whole : std::uint8_t { kNotTried, kIsItself, kIsOthers };

  // Appends what merging starts from.
  void add_units(std::string_view piece, std::vector<Symbol>& symbols) const;
  void merge(std::string_view piece, std::vector<int>& ids) const;
  const Rule* rule(int left, int right) const;

  BpeVocabulary vocabulary_;
  std::unordered_map<std::string_view, int> id_of_;
  std::unordered_map<std::uint64_t, Rule> rules_;
  std::array<int, 256> byte_id_{};  // tokens of one byte, which most text starts from
  // Most pieces of text are a token as a whole. Whether merging would arrive at that token is found out when it is
  // first met and then remembered, one byte per token.
  std::unique_ptr<std::atomic<std::uint8_t>[]> whole_;
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_SUBWORD_BPE_H_
