// Cutting text into the pieces that are merged each by itself.
#ifndef BALLAST_MODEL_TOKENIZER_PRE_TOKENIZER_H_
#define BALLAST_MODEL_TOKENIZER_PRE_TOKENIZER_H_

#include <functional>
#include <string_view>
#include <variant>
#include <vector>

#include "model/tokenizer/checked_json.h"
#include "model/tokenizer/regex.h"

namespace ballast::model {

/// Takes a piece; the view is valid during the call only.
using PieceSink = std::function<void(std::string_view)>;

/// The `pre_tokenizer` tree of a tokenizer.json whose last step is ByteLevel. Immutable; safe to use from several
/// threads.
class PreTokenizer {
 public:
  /// Knows Sequence, Split, Digits and ByteLevel; throws Error naming any other node.
  explicit PreTokenizer(const CheckedJson& node);

  /// Gives the pieces of `text` (valid UTF-8) in order, none empty.
  void split(std::string_view text, const PieceSink& sink) const { run(0, text, sink); }

 private:
  /// What becomes of the parts that an expression matches; names as in tokenizer.json.
  enum class Behavior { kIsolated, kRemoved, kContiguous, kMergedWithPrevious, kMergedWithNext };

  struct Split {
    Regex regex;
    Behavior behavior;
    bool invert;  ///< the gaps between matches count as the matches
  };
  struct PrefixSpace {};
  using Step = std::variant<Split, PrefixSpace>;

  void add_node(const CheckedJson& node, int depth);
  void add_split(const CheckedJson& node);
  void add_byte_level(const CheckedJson& node);
  static Behavior behavior(const CheckedJson& name);
  static bool belong_together(Behavior behavior, bool last_matched, bool next_matches);

  void run(std::size_t step, std::string_view text, const PieceSink& sink) const;
  void run_split(const Split& split, std::string_view text, const PieceSink& sink) const;

  std::vector<Step> steps_;
  bool byte_level_ = false;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_TOKENIZER_PRE_TOKENIZER_H_
