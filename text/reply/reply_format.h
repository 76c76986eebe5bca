// The marks of thinking and answer and the syntax of calls in models' replies: data about each format, which
// ReplyParser uses.
#ifndef BALLAST_TEXT_REPLY_REPLY_FORMAT_H_
#define BALLAST_TEXT_REPLY_REPLY_FORMAT_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/chat.h"
#include "text/reply/call_syntax.h"
#include "text/tokenizer.h"

namespace ballast::text {

/// The kind of text at a position of a reply.
enum class ReplyState : std::uint8_t {
  kBegin,  ///< white space before anything else
  kAnswer,
  kThinking,
  kHeader,  ///< the name of the next message's channel
  kCall,    ///< calls of tools
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
  std::optional<ReplyState> next;  ///< absent: determined by the channel in the header
};

struct ReplyChannel {
  std::string_view name;  ///< the beginning of the header
  ReplyKind kind;
};

/// Texts that are all in a chat template.
using TemplateTexts = std::vector<std::string_view>;

struct ReplyFormat {
  std::string_view name;
  std::vector<TemplateTexts> in_template{};  ///< a chat template with the texts of one of these uses this format
  std::vector<ReplyMark> marks{};            ///< the first one opens the thinking, or a message, if the format has any
  std::vector<ReplyChannel> channels{};      ///< text of any other channel is answer
  std::vector<std::string_view> ends{};      ///< special tokens that end the reply
  std::vector<std::string_view>
      inner{};        ///< special tokens that do not end it, although they end other models' replies
  bool trims = true;  ///< white space next to the marks is dropped
  /// How tools are called; the model's template writes the first one. Each one's `open` is a mark with next = kCall.
  std::vector<CallSyntax> calls{};
  std::string_view recipient{};  ///< before a tool's name in the header of a message that is a call, as in calls[0]
};

inline constexpr std::string_view kAutoReplyFormat = "auto";

/// Returns "none", for replies without marks, and the formats with marks.
const std::vector<ReplyFormat>& reply_formats();

/// Returns "auto" and the names of the formats.
std::vector<std::string> reply_format_names();

/// Returns the format of that name. For "auto" it is the first one whose texts the tokenizer's chat templates contain;
/// if there is none, the one whose marks are all tokens of the vocabulary; else "none". Throws Error for an unknown
/// name.
const ReplyFormat& find_reply_format(const Tokenizer& tokenizer, std::string_view name);

/// Returns whether replies of this format may have thinking.
bool can_think(const ReplyFormat& format);

/// Returns the id of the token with this text, special or added; nullopt if the text has several tokens, or one that
/// the model cannot write.
std::optional<int> find_token(const Tokenizer& tokenizer, std::string_view text);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_REPLY_REPLY_FORMAT_H_
