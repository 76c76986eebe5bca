// Fixed text in calls of tools: matched symbol by symbol while a model writes it.
#ifndef BALLAST_TEXT_REPLY_CALL_MARKS_H_
#define BALLAST_TEXT_REPLY_CALL_MARKS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace ballast::text {

/// What a model writes: a byte of text, or a special token.
struct Symbol {
  static constexpr int kByte = -1;

  int token = kByte;
  std::string text{};  ///< one byte, or the token's text

  bool is_byte() const { return token == kByte; }
  bool is(char c) const { return is_byte() && text.front() == c; }
  bool is_space() const { return is(' ') || is('\t') || is('\r') || is('\n'); }
};

/// In fixed text a line break stands for any white space, also none, and this character, too: models' templates write a
/// line break for the first, and nothing for the second.
inline constexpr char kUnwrittenSpace = '\t';

/// A part of fixed text: a special token, or text without any.
struct MarkPart {
  std::optional<int> token{};
  std::string text{};
};

/// Splits fixed text at the vocabulary's special tokens.
std::vector<MarkPart> split_mark(std::string_view text, const Tokenizer& tokenizer);

/// Fixed text of a format. Marks that are special tokens of the vocabulary match only as tokens.
class CallMark {
 public:
  CallMark(std::string_view text, const Tokenizer& tokenizer);

  /// Returns whether nothing but white space is required.
  bool empty() const { return elements_.empty(); }

 private:
  friend class CallMarkMatcher;

  struct Element {
    enum class Kind { kSpace, kByte, kToken };
    Kind kind;
    char byte = 0;
    int token = 0;
  };

  std::vector<Element> elements_;  ///< the last one is not white space
};

/// Several marks, none of which begins another.
using CallMarks = std::vector<CallMark>;

CallMarks make_call_marks(const std::vector<std::string_view>& texts, const Tokenizer& tokenizer);

/// Matches one of several marks, from the first symbol on. The marks must outlive the matcher.
class CallMarkMatcher {
 public:
  enum class Result { kMore, kMatched, kFailed };

  explicit CallMarkMatcher(const CallMarks& marks);

  /// Must not be called again after it returned kMatched or kFailed.
  Result take(const Symbol& symbol);

  /// Returns the position of the mark that matched.
  std::size_t matched() const { return matched_; }

 private:
  static constexpr std::size_t kFailedMark = static_cast<std::size_t>(-1);

  static bool step(const CallMark& mark, std::size_t& position, const Symbol& symbol);

  const CallMarks* marks_;
  std::vector<std::size_t> positions_;  ///< matched elements of each mark, or kFailedMark
  std::size_t matched_ = 0;
};

/// Passes text through up to the first of several marks, which must not begin with white space.
class CallTextReader {
 public:
  explicit CallTextReader(const CallMarks& marks) : marks_(&marks) {}

  /// Takes a symbol, and appends what is certainly text to `text`. Returns the mark's position once one is complete.
  std::optional<std::size_t> take(const Symbol& symbol, std::string& text);

 private:
  const CallMarks* marks_;
  std::vector<Symbol> held_;  ///< possibly the beginning of a mark
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_REPLY_CALL_MARKS_H_
