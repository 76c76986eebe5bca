// What a conversation is made of.
#ifndef BALLAST_CHAT_H_
#define BALLAST_CHAT_H_

#include <string>

namespace ballast {

/// One turn of a conversation.
struct ChatMessage {
  std::string role;  ///< "system", "user" or "assistant"
  std::string content;
};

}  // namespace ballast

#endif  // BALLAST_CHAT_H_
