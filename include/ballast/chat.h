// Messages of a conversation, and a model's reply.
#ifndef BALLAST_CHAT_H_
#define BALLAST_CHAT_H_

#include <string>

namespace ballast {

/// One turn of a conversation.
struct ChatMessage {
  std::string role;  ///< "system", "user" or "assistant"
  std::string content;
  /// A JSON object with the other fields of the message (reasoning_content, name, tool_calls ...), for the chat
  /// template. If it has "content", a list of parts, that replaces the text. Empty: none.
  std::string fields{};
};

enum class ReplyKind {
  kAnswer,
  kThinking,  ///< text that a model writes for itself before or between parts of its answer
};

/// Text of one kind from a model, without its marks.
struct ReplyPart {
  ReplyKind kind = ReplyKind::kAnswer;
  std::string text;

  bool operator==(const ReplyPart&) const = default;
};

}  // namespace ballast

#endif  // BALLAST_CHAT_H_
