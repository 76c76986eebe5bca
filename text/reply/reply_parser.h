// Separates thinking from the answer while a model writes.
#ifndef BALLAST_TEXT_REPLY_REPLY_PARSER_H_
#define BALLAST_TEXT_REPLY_REPLY_PARSER_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/chat_prompt.h"
#include "text/reply/reply_format.h"
#include "text/reply/reply_piece.h"

namespace ballast::text {

/// Takes text and special tokens, and returns pieces; their sum does not depend on how the text is split into calls. A
/// mark that is a special token of the vocabulary is only that token; the same characters as text are text. Thinking
/// without an end mark remains thinking. Copies are independent.
class ReplyParser {
 public:
  /// Treats all text as the answer.
  ReplyParser();

  /// `format` must outlive the parser; those of reply_formats() do.
  ReplyParser(const ReplyFormat& format, const Tokenizer& tokenizer);

  /// Starts in the state in which the prompt leaves the reply: some templates open the thinking themselves. Messages of
  /// users have no effect, except a message that the reply continues.
  void begin_after(const ChatPrompt& prompt);

  /// Adds the text that is certain now to `pieces`. Text that may begin a mark is kept for the next call.
  void push(std::string_view text, std::vector<ReplyPiece>& pieces);

  /// Handles a special token and its text.
  void push_special(int id, std::string_view text, std::vector<ReplyPiece>& pieces);

  /// Adds the waiting text at the end.
  void finish(std::vector<ReplyPiece>& pieces);

  /// Returns whether a special token is one of the format's marks.
  bool is_mark(int id) const;

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
  bool begins_text() const;
  FoundMark find_mark() const;
  std::size_t count_possible_mark() const;
  std::size_t size_without_edge(std::size_t size) const;
  bool take(std::size_t size, std::vector<ReplyPiece>& pieces);
  void take_waiting(std::vector<ReplyPiece>& pieces);
  void pass(const ReplyMark& mark, std::vector<ReplyPiece>& pieces);
  void add(std::string_view text, std::vector<ReplyPiece>& pieces);
  ReplyState state_of_channel() const;

  const ReplyFormat* format_;
  std::vector<int> mark_ids_;  ///< the special token of each mark; kIsText if it is text
  std::vector<int> ends_;
  std::vector<int> inner_;
  ReplyState state_ = ReplyState::kBegin;
  std::string waiting_;       ///< text that may begin a mark, and white space that may be next to one
  std::string header_;        ///< since the last mark
  bool has_mark_ = false;     ///< one that the model wrote
  bool drops_space_ = false;  ///< only white space came after the last mark
  bool has_thought_ = false;
  bool has_answered_ = false;
  bool separates_ = false;  ///< more thinking begins
};

/// Returns the parser for the reply to a prompt, in the format of that name (find_reply_format).
ReplyParser make_reply_parser(const Tokenizer& tokenizer, const ChatPrompt& prompt, std::string_view format);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_REPLY_REPLY_PARSER_H_
