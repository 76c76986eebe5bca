// Messages of a conversation, and a model's reply.
#ifndef BALLAST_CHAT_H_
#define BALLAST_CHAT_H_

#include <cstddef>
#include <string>

namespace ballast {

/// One turn of a conversation.
struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant" or "tool"
  std::string content;
  /// A JSON object with the other fields of the message (reasoning_content, name, tool_calls ...), for the chat
  /// template. If it has "content", a list of parts, that replaces the text. Empty: none.
  std::string fields{};
};

enum class ReplyKind {
  kAnswer,
  kThinking,  ///< text that a model writes for itself before or between parts of its answer
  /// A whole name: a call of a tool begins.
  kToolName,
  /// A piece of a call's arguments; the pieces of a call are together the text of one JSON object. The last one comes
  /// when the call is complete.
  kToolArguments,
  /// A call whose name has been reported is none, because it is malformed or the end of the reply cuts it. The text is
  /// what the model wrote: it takes the place of the call, as a part of the answer.
  kBrokenCall,
};

/// Text of one kind from a model, without its marks.
struct ReplyPart {
  ReplyKind kind = ReplyKind::kAnswer;
  std::string text;
  std::size_t call = 0;  ///< of kToolName, kToolArguments and kBrokenCall: counts the calls of a reply, from 0

  bool operator==(const ReplyPart&) const = default;
};

/// A call of a tool by a model.
struct ToolCall {
  std::string name;
  std::string arguments;  ///< the text of a JSON object

  bool operator==(const ToolCall&) const = default;
};

}  // namespace ballast

#endif  // BALLAST_CHAT_H_
