// Byte-pair encoding of one piece of text (Sennrich et al. 2016, on bytes as in GPT-2).
#ifndef BALLAST_MODEL_TOKENIZER_BPE_H_
#define BALLAST_MODEL_TOKENIZER_BPE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ballast::model {

/// What a BPE model consists of. Ids are checked by who fills this in.
struct BpeVocabulary {
  struct Token {
    std::string text;  ///< as the file spells it; empty for ids that no token has
    std::string bytes;
    bool mergeable = false;  ///< made of bytes of text; false for holes and for names in other characters
  };
  struct Merge {
    int left;
    int right;
    int result;
  };

  std::vector<Token> tokens;   ///< by id
  std::vector<Merge> merges;   ///< the first one has precedence
  bool ignore_merges = false;  ///< a piece that is a token stays whole
  int unknown = -1;            ///< stands for bytes that are no token; -1: such bytes are left out
  bool fuse_unknown = false;   ///< one `unknown` for a run of such bytes
};

/// Immutable but for a cache; safe to use from several threads.
class Bpe {
 public:
  explicit Bpe(BpeVocabulary vocabulary);

  /// Appends the ids of `piece`. O(n log n).
  void encode(std::string_view piece, std::vector<int>& ids) const;

 private:
  struct Rule {
    int rank;
    int result;
  };
  // What is known of merging a token's own bytes.
  enum Whole : std::uint8_t { kNotTried, kIsItself, kIsOthers };

  void merge(std::string_view piece, std::vector<int>& ids) const;
  const Rule* rule(int left, int right) const;

  BpeVocabulary vocabulary_;
  std::unordered_map<std::string_view, int> id_of_;
  std::unordered_map<std::uint64_t, Rule> rules_;
  std::array<int, 256> byte_id_{};
  // Most pieces of text are a token as a whole. Whether merging would arrive at that token is found out when it is
  // first met and then remembered, one byte per token.
  std::unique_ptr<std::atomic<std::uint8_t>[]> whole_;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_TOKENIZER_BPE_H_
