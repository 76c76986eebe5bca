// Reads calls of tools in a reply, symbol by symbol.
#ifndef BALLAST_TEXT_REPLY_CALL_READER_H_
#define BALLAST_TEXT_REPLY_CALL_READER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/reply/argument_readers.h"
#include "text/reply/call_marks.h"
#include "text/reply/call_syntax.h"
#include "text/reply/offered_tool.h"
#include "text/tokenizer.h"

namespace ballast::text {

/// A syntax in the tokens of a vocabulary.
struct TokenizedCallSyntax {
  TokenizedCallSyntax(const CallSyntax& call_syntax, const Tokenizer& tokenizer);

  CallSyntax syntax;
  CallMarks first;
  CallMarks after_name;
  CallMarks after_name_or_id;  ///< after_name, and before_id if there is one
  CallMarks after_arguments;
  CallMarks between;  ///< CallSyntax::next and close, as far as there are any
  bool next_is_first_between = false;
  CallMarks gemma_quote;
  ParameterMarks parameters;
  ElementMarks elements;
};

using OfferedTools = std::shared_ptr<const std::vector<OfferedTool>>;

/// Takes what a model writes after CallSyntax::open: one call or several. Copies are independent.
class CallReader {
 public:
  enum class Result {
    kMore,
    kEnded,         ///< the symbol is the last one of the calls
    kEndedEarlier,  ///< the calls are complete, and unread() and the symbol come after them
    kFailed,        ///< this is no call: unread() and the symbol may begin another one
  };

  /// What a symbol has made certain.
  struct Output {
    std::optional<std::string> name{};  ///< a call begins
    std::string arguments{};            ///< the next piece of the call's JSON object
    bool completed = false;             ///< the call is complete
  };

  /// `tools` is not null. `name`: of the only call, when the format has it before `open`.
  CallReader(std::shared_ptr<const TokenizedCallSyntax> syntax, OfferedTools tools, std::string name = {});

  /// Must not be called again after another result than kMore.
  Result take(const Symbol& symbol, Output& output);

  /// Returns whether the reply may end here: outside of a call, or after the arguments of one.
  bool may_end() const { return state_ == State::kAfterArguments || state_ == State::kBetween; }

  /// Returns whether the arguments of a call that is not complete are.
  bool has_whole_call() const { return state_ == State::kAfterArguments; }

  /// Returns text of fixed marks that turned out to be something else.
  const std::string& unread() const { return unread_; }

 private:
  enum class State { kFirst, kName, kAfterName, kId, kArguments, kAfterArguments, kBetween };

  void match(State state, const CallMarks& marks);
  void begin_call();
  bool accept_name();
  void begin_arguments();
  Result end_call(Output& output);
  Result between_calls();
  Result take_name(const Symbol& symbol, Output& output);
  Result take_id(const Symbol& symbol);
  Result take_arguments(const Symbol& symbol, Output& output);
  Result take_json_calls(const Symbol& symbol, Output& output);
  Result take_mark(const Symbol& symbol, Output& output);

  std::shared_ptr<const TokenizedCallSyntax> syntax_;
  OfferedTools tools_;
  State state_ = State::kFirst;
  CallMarkMatcher matcher_;
  std::string name_;
  std::optional<CallTextReader> id_;
  std::size_t id_size_ = 0;
  bool name_is_known_ = false;  ///< before `open`
  bool name_is_reported_ = false;
  bool has_called_ = false;
  std::optional<ArgumentReader> arguments_;
  std::optional<JsonCalls> json_calls_;
  std::string unread_;
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_REPLY_CALL_READER_H_
