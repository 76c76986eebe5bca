// Readers of the arguments of one call, one for each way to write them. They take symbol by symbol what a model writes
// and give the text of a JSON object.
#ifndef BALLAST_TEXT_REPLY_ARGUMENT_READERS_H_
#define BALLAST_TEXT_REPLY_ARGUMENT_READERS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "text/reply/argument_result.h"
#include "text/reply/call_marks.h"
#include "text/reply/call_syntax.h"
#include "text/reply/element_arguments.h"
#include "text/reply/json_scanner.h"
#include "text/reply/offered_tool.h"

namespace ballast::text {

/// A JSON object, which passes through.
class JsonArguments {
 public:
  /// Appends what has become certain to `object`.
  ArgumentResult take(const Symbol& symbol, std::string& object);

 private:
  JsonScanner scanner_;
};

/// Marks of ParameterSyntax, as symbols.
struct ParameterMarks {
  ParameterMarks(const ParameterSyntax& syntax, const Tokenizer& tokenizer);

  CallMarks first;  ///< of the first parameter, and of the end
  CallMarks name_ends;
  CallMarks value_ends;                          ///< of the next parameter, and of the end
  std::vector<std::optional<bool>> are_strings;  ///< for each of name_ends
  bool own_lines = false;
  CallMarks cdata;       ///< <![CDATA[, if values may begin with it
  CallMarks cdata_ends;  ///< as value_ends, after such a beginning
};

/// Parameters between marks, whose values are text. A value ends where another parameter or the end follows, so that it
/// may contain its closing mark.
class ParameterArguments {
 public:
  /// `tool`: null if its schema is not known. Both must outlive the reader.
  ParameterArguments(const ParameterMarks& marks, const OfferedTool* tool);

  ArgumentResult take(const Symbol& symbol, std::string& object);

 private:
  enum class State { kFirst, kName, kValueBegin, kValue };

  ArgumentResult take_value(const Symbol& symbol, std::string& object);
  ArgumentResult take_value_begin(const Symbol& symbol, std::string& object);
  ArgumentResult go_on_after(std::size_t mark, std::string& object);
  void begin_value(std::size_t name_end, std::string& object);
  void add_to_string(std::string_view text, std::string& object);
  bool end_value(std::string& object);

  const ParameterMarks* marks_;
  const OfferedTool* tool_;
  State state_ = State::kFirst;
  CallMarkMatcher first_;
  CallTextReader text_;
  std::string name_;
  std::string value_;
  std::vector<std::string> names_;
  JsonTypes types_{};
  bool streams_ = false;         ///< the value is a string, whose text is passed on at once
  CallMarkMatcher cdata_;        ///< of a value's beginning
  std::vector<Symbol> held_;     ///< of a value: possibly the beginning of <![CDATA[
  bool begins_ = false;          ///< no byte of the value has come
  bool holds_line_end_ = false;  ///< a line break, which may be the last one before the closing mark
};

/// Keyword arguments of Python up to the closing parenthesis. Some templates do not escape strings: a quote ends one
/// only before a comma, a colon or a closing bracket.
class PythonArguments {
 public:
  ArgumentResult take(const Symbol& symbol, std::string& object);

 private:
  void take_in_string(const Symbol& symbol);
  bool end_argument(bool is_last, std::string& object);

  std::string text_;  ///< of one argument
  std::vector<std::string> names_;
  std::size_t depth_ = 0;
  char quote_ = 0;
  bool escaped_ = false;
  bool may_be_closed_ = false;  ///< a quote and possibly white space have come
};

/// Gemma 4's members up to the closing brace.
class GemmaArguments {
 public:
  explicit GemmaArguments(const CallMarks& quote) : quote_(&quote), string_(quote), begin_(quote) {}

  ArgumentResult take(const Symbol& symbol, std::string& object);

 private:
  bool end_argument(bool is_last, std::string& object);

  const CallMarks* quote_;
  CallTextReader string_;  ///< text within quotes, up to the closing one
  CallMarkMatcher begin_;  ///< an opening quote
  bool in_string_ = false;
  bool in_quote_ = false;  ///< a part of an opening quote has come
  std::string text_;       ///< of one argument
  std::vector<std::string> names_;
  std::size_t depth_ = 0;
};

using ArgumentReader =
    std::variant<JsonArguments, ParameterArguments, ElementArguments, PythonArguments, GemmaArguments>;

/// JSON with the name and the arguments of one call or, in a list, of several.
class JsonCalls {
 public:
  /// What a symbol has made certain.
  struct Step {
    bool failed = false;
    bool has_name = false;  ///< name() is complete
    bool ended = false;     ///< a call is complete
    bool done = false;      ///< no other call follows
  };

  /// `by_name`: kJsonByName. `strict_names`: a member that no call has ends the attempt.
  JsonCalls(bool by_name, bool strict_names) : by_name_(by_name), strict_names_(strict_names) {}

  /// Appends the arguments to `object`, after the name is known.
  Step take(const Symbol& symbol, std::string& object);

  const std::string& name() const { return name_; }

 private:
  enum class Member { kNone, kName, kArguments, kOther };

  bool take_byte(char c, Step& step, std::string& object);
  bool begin_member(Step& step);
  bool take_value(char c, std::string& object);
  bool end_member(Step& step, std::string& object);
  void set_name(std::string name, Step& step);
  bool end_call(Step& step, std::string& object);

  bool by_name_;
  bool strict_names_;
  JsonScanner scanner_;
  std::size_t base_ = 0;  ///< depth outside of a call: 1 in a list
  Member member_ = Member::kNone;
  std::string member_name_;  ///< as JSON
  std::string value_;        ///< of the member, unless it is streamed
  std::string name_;
  bool has_name_ = false;
  bool has_arguments_ = false;
  bool streams_ = false;
  std::string arguments_;  ///< that came before the name
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_REPLY_ARGUMENT_READERS_H_
