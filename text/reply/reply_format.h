// How models mark thinking and answer in what they write: each format is a table of marks, which ReplyParser follows.
#ifndef BALLAST_TEXT_REPLY_REPLY_FORMAT_H_
#define BALLAST_TEXT_REPLY_REPLY_FORMAT_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/chat.h"
#include "text/tokenizer.h"

namespace ballast::text {

/// What the text at some place of a reply is.
enum class ReplyState : std::uint8_t {
  kBegin,  ///< white space before anything else
  kAnswer,
  kThinking,
  kHeader,  ///< the name of the channel that the next message is in
};

class ReplyStates {
 public:
  constexpr ReplyStates(std::initializer_list<ReplyState> states) {
    for (const ReplyState state : states) bits_ |= 1U << static_cast<unsigned>(state);
  }
  constexpr bool contains(ReplyState state) const { return (bits_ >> static_cast<unsigned>(state) & 1U) != 0; }

 private:
  unsigned bits_ = 0;
};

/// Text that is a mark in some states and plain text in the others.
struct ReplyMark {
  std::string_view text;
  ReplyStates in;
  std::optional<ReplyState> next;  ///< absent: by the channel that the header names
};

struct ReplyChannel {
  std::string_view name;  ///< what the header begins with
  ReplyKind kind;
};

struct ReplyFormat {
  std::string_view name;
  std::vector<std::string_view> in_template{};  ///< a chat template with one of these asks for such replies
  std::vector<ReplyMark> marks{};               ///< the first one opens the thinking, or a message
  std::vector<ReplyChannel> channels{};         ///< text of any other channel is answer
  std::vector<std::string_view> ends{};         ///< special tokens that end the reply
  std::vector<std::string_view> inner{};        ///< special tokens that do not, although other models end with them
  bool trims = true;                            ///< white space beside the marks is no part of thinking or answer
};

inline constexpr std::string_view kAutoReplyFormat = "auto";

/// A reply that is all answer, "none", and those that have marks.
const std::vector<ReplyFormat>& reply_formats();

/// "auto" and the names of the formats.
std::vector<std::string> reply_format_names();

/// The format of that name. For "auto" the one whose marks the tokenizer's chat template contains; where it contains
/// none, the one whose marks all are tokens of the vocabulary; else "none". Throws Error for an unknown name.
const ReplyFormat& find_reply_format(const Tokenizer& tokenizer, std::string_view name);

/// The id of the token with this text, special or added; empty where the text takes several tokens, or one that the
/// model cannot write.
std::optional<int> find_token(const Tokenizer& tokenizer, std::string_view text);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_REPLY_REPLY_FORMAT_H_
