// What a conversation is made of, and a reply to it.
#ifndef BALLAST_CHAT_H_
#define BALLAST_CHAT_H_

#include <string>

namespace ballast {

/// One turn of a conversation.
struct ChatMessage {
  std::string role;  ///< "system", "user" or "assistant"
  std::string content;
  /// A JSON object of what the message has besides (reasoning_content, name, tool_calls ...), for the chat template. A
  /// "content" in it, a list of parts, takes the place of the text. Empty: nothing.
  std::string fields{};
};

enum class ReplyKind {
  kAnswer,
  kThinking,  ///< what a model writes for itself before or between parts of its answer
};

/// Text of one kind that a model wrote, without the marks that it sets around it.
struct ReplyPart {
  ReplyKind kind = ReplyKind::kAnswer;
  std::string text;

  bool operator==(const ReplyPart&) const = default;
};

}  // namespace ballast

#endif  // BALLAST_CHAT_H_
