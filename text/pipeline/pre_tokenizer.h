// Splits text into the pieces that are merged separately.
#ifndef BALLAST_TEXT_PIPELINE_PRE_TOKENIZER_H_
#define BALLAST_TEXT_PIPELINE_PRE_TOKENIZER_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "files/json_reader.h"
#include "text/unicode/regex.h"

namespace ballast::text {

/// Receives a piece; the view is valid only during the call.
using PieceSink = std::function<void(std::string_view)>;

/// The `pre_tokenizer` tree of a tokenizer.json. Immutable; safe to use from several threads.
class PreTokenizer {
 public:
  /// Supports Sequence, Split, Digits, Punctuation, Whitespace, WhitespaceSplit, BertPreTokenizer, Metaspace and
  /// ByteLevel; throws Error naming any other node. Without a node a text is one piece.
  explicit PreTokenizer(const std::optional<files::JsonReader>& node);

  /// Passes the pieces of `text` (valid UTF-8) in order, none empty. `begins_input`: `text` is at the beginning of the
  /// input.
  void split(std::string_view text, bool begins_input, const PieceSink& sink) const {
    run(0, text, begins_input, sink);
  }

  /// Returns whether the pieces are bytes in the byte alphabet (byte_alphabet.h).
  bool is_byte_level() const { return byte_level_; }

 private:
  /// The treatment of the parts that an expression matches; names as in tokenizer.json.
  enum class Behavior { kIsolated, kRemoved, kContiguous, kMergedWithPrevious, kMergedWithNext };

  struct Split {
    Regex regex;
    Behavior behavior;
    bool invert;  ///< the gaps between matches count as the matches
  };
  struct PrefixSpace {};
  struct Metaspace {
    enum class Prepend { kAlways, kFirst, kNever };
    std::string replacement;  ///< of spaces
    Prepend prepend;
  };
  using Step = std::variant<Split, PrefixSpace, Metaspace>;

  void add_node(const files::JsonReader& node, int depth);
  void add_split(const files::JsonReader& node);
  void add_byte_level(const files::JsonReader& node);
  void add_metaspace(const files::JsonReader& node);
  void add_pattern(std::string_view pattern, const files::JsonReader& node, Behavior behavior, bool invert = false);
  static Behavior behavior(const files::JsonReader& name);
  static bool belong_together(Behavior behavior, bool last_matched, bool next_matches);

  void run(std::size_t step, std::string_view text, bool begins_input, const PieceSink& sink) const;
  static void run_split(const Split& split, std::string_view text, const PieceSink& sink);
  static std::string apply(const Metaspace& metaspace, std::string_view text, bool begins_input);

  std::vector<Step> steps_;
  bool byte_level_ = false;
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_PIPELINE_PRE_TOKENIZER_H_
