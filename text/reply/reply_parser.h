// Tells thinking from answer while a model writes.
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

/// Text and special tokens in, pieces out; how the text is cut into calls makes no difference to what they add up to.
/// A mark that is a special token of the vocabulary is that token alone, so that text which spells it out stays text.
/// Thinking that nothing closes stays thinking. Copies are independent.
class ReplyParser {
 public:
  /// All is answer.
  ReplyParser();

  /// `format` must outlive the parser, as those of reply_formats() do.
  ReplyParser(const ReplyFormat& format, const Tokenizer& tokenizer);

  /// Takes the state in which the prompt leaves the reply: some templates open the thinking themselves. What users
  /// wrote has no effect, but for a message that the reply continues.
  void begin_after(const ChatPrompt& prompt);

  /// Adds what is certain now to `pieces`. Text that may begin a mark waits for the next call.
  void push(std::string_view text, std::vector<ReplyPiece>& pieces);

  /// The same for a special token and its text.
  void push_special(int id, std::string_view text, std::vector<ReplyPiece>& pieces);

  /// Adds what waited; no text follows.
  void finish(std::vector<ReplyPiece>& pieces);

  /// Whether a special token is one of the format's marks.
  bool is_mark(int id) const;

  /// Tokens that end the reply.
  const std::vector<int>& ends() const { return ends_; }

  /// Tokens that do not, even if the model's files say so.
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
  std::vector<int> mark_ids_;  ///< the special token that each mark is; kIsText where it is text
  std::vector<int> ends_;
  std::vector<int> inner_;
  ReplyState state_ = ReplyState::kBegin;
  std::string waiting_;       ///< text that may begin a mark, and white space that may be beside one
  std::string header_;        ///< since the last mark
  bool has_mark_ = false;     ///< of the model's own
  bool drops_space_ = false;  ///< nothing but white space came after the last mark
  bool has_thought_ = false;
  bool has_answered_ = false;
  bool separates_ = false;  ///< more thinking begins
};

/// The parser for the reply to a prompt, in the format of that name (find_reply_format).
ReplyParser make_reply_parser(const Tokenizer& tokenizer, const ChatPrompt& prompt, std::string_view format);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_REPLY_REPLY_PARSER_H_
