// Tools for models whose chat template does not write them.
#ifndef BALLAST_TEXT_CHAT_TOOL_TEXT_H_
#define BALLAST_TEXT_CHAT_TOOL_TEXT_H_

#include <string_view>

#include "text/chat/chat_prompt.h"

namespace ballast::text {

/// The reply format in which such a model is asked to write its calls.
inline constexpr std::string_view kToolTextFormat = "hermes";

/// Returns the conversation with its tools, calls and results as text of messages, in the form of Hermes 2 Pro (Nous
/// Research), which many models have seen: the tools are described in the system message, results are a user's
/// messages.
Conversation with_tools_as_text(const Conversation& conversation);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_CHAT_TOOL_TEXT_H_
