// Separates thinking, answer and calls of tools while a model writes.
#ifndef BALLAST_TEXT_REPLY_REPLY_PARSER_H_
#define BALLAST_TEXT_REPLY_REPLY_PARSER_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/chat_prompt.h"
#include "text/reply/call_reader.h"
#include "text/reply/offered_tool.h"
#include "text/reply/reply_format.h"
#include "text/reply/reply_piece.h"

namespace ballast::text {

/// Takes text and special tokens, and returns pieces; their sum does not depend on how the text is split. A mark that
/// is a special token of the vocabulary is only that token; the same characters as text are text. Thinking without an
/// end mark remains thinking. Calls are read only if tools are offered; what is malformed is answer. Copies are
/// independent.
class ReplyParser {
 public:
  /// Treats all text as the answer.
  ReplyParser();

  /// `format` must outlive the parser; those of reply_formats() do.
  ReplyParser(const ReplyFormat& format, const Tokenizer& tokenizer, std::vector<OfferedTool> tools = {});

  /// Starts in the state in which the prompt leaves the reply: some templates open the thinking themselves. Messages of
  /// users have no effect, except a message that the reply continues.
  void begin_after(const ChatPrompt& prompt);

  /// Adds the text that is certain now to `pieces`. Text that may begin a mark is kept for the next call.
  void push(std::string_view text, std::vector<ReplyPiece>& pieces);

  /// Handles a special token and its text.
  void push_special(int id, std::string_view text, std::vector<ReplyPiece>& pieces);

  /// Adds the waiting text at the end.
  void finish(std::vector<ReplyPiece>& pieces);

  /// Returns whether a special token is one of the format's marks, or inside a call.
  bool is_mark(int id) const;

  const ReplyFormat& format() const { return *format_; }

  /// Returns the kind of the text that follows.
  ReplyState state() const { return state_; }

  /// Returns the tokens that end the reply.
  const std::vector<int>& ends() const { return ends_; }

  /// Returns the tokens that do not end it, even if the model's files list them as end tokens.
  const std::vector<int>& inner() const { return inner_; }

 private:
  struct FoundMark {
    std::size_t begin = 0;
    const ReplyMark* mark = nullptr;
  };

  void begin_after_template(std::string_view written);
  bool calls_tools() const { return tools_ != nullptr && !tools_->empty(); }
  bool is_active(const ReplyMark& mark) const { return mark.next != ReplyState::kCall || calls_tools(); }
  bool begins_text() const;
  FoundMark find_mark() const;
  std::size_t count_possible_mark() const;
  std::size_t size_without_edge(std::size_t size) const;
  void drain(std::vector<ReplyPiece>& pieces);
  bool take(std::size_t size, std::vector<ReplyPiece>& pieces);
  void take_waiting(std::vector<ReplyPiece>& pieces);
  void pass(const ReplyMark& mark, std::string_view space, bool is_text, std::vector<ReplyPiece>& pieces);
  void begin_calls(std::size_t syntax, std::string_view written, std::string name = {});
  void take_symbol(const Symbol& symbol, std::vector<ReplyPiece>& pieces);
  bool try_next_syntax(const Symbol& symbol, std::vector<ReplyPiece>& pieces);
  void show_call(const CallReader::Output& output, std::vector<ReplyPiece>& pieces);
  void complete_call(std::vector<ReplyPiece>& pieces);
  void end_calls();
  void break_call(std::string_view written, std::vector<ReplyPiece>& pieces);
  void finish_calls(std::vector<ReplyPiece>& pieces);
  void add(std::string_view text, std::vector<ReplyPiece>& pieces);
  void note_recipient();
  ReplyState state_of_channel() const;

  const ReplyFormat* format_;
  std::vector<int> mark_ids_;  ///< the special token of each mark; kIsText if it is text
  std::vector<int> ends_;
  std::vector<int> inner_;
  ReplyState state_ = ReplyState::kBegin;
  std::string waiting_;    ///< text that may begin a mark, and white space that may be next to one or belong to a call
  std::string header_;     ///< since the last mark
  bool has_mark_ = false;  ///< one that the model wrote
  bool drops_space_ = false;  ///< only white space came after the last mark
  bool has_thought_ = false;
  bool has_answered_ = false;
  bool separates_ = false;  ///< more thinking begins

  OfferedTools tools_;  ///< null: none
  std::vector<std::shared_ptr<const TokenizedCallSyntax>> call_syntaxes_;
  std::optional<CallReader> calls_;  ///< in the state kCall
  std::size_t syntax_ = 0;           ///< of calls_
  std::string before_calls_;         ///< call_text_ at their beginning
  std::vector<Symbol> tried_;        ///< in calls_, until it is certain that this is their syntax
  bool is_certain_ = false;
  std::string recipient_;          ///< the tool to which the message of the header goes
  std::string call_text_;          ///< the text since the last complete call
  std::string last_brace_;         ///< of arguments; held back until the call is complete
  std::size_t call_ = 0;           ///< calls that have been reported
  bool call_is_reported_ = false;  ///< the name of the current one
  bool after_call_ = false;        ///< only white space came after a call
};

/// Returns the parser for the reply to a prompt, in the format of that name (find_reply_format). `tools`: those that
/// the model may call.
ReplyParser make_reply_parser(const Tokenizer& tokenizer, const ChatPrompt& prompt, std::string_view format,
                              std::vector<OfferedTool> tools = {});

}  // namespace ballast::text

#endif  // BALLAST_TEXT_REPLY_REPLY_PARSER_H_
