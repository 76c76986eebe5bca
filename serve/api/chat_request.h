// A request that continues a conversation, independent of the API that a client speaks.
#ifndef BALLAST_SERVE_API_CHAT_REQUEST_H_
#define BALLAST_SERVE_API_CHAT_REQUEST_H_

#include <cstddef>
#include <optional>
#include <string>

#include "serve/api/constraint_fields.h"
#include "serve/api/generation_fields.h"
#include "serve/api/tool_fields.h"
#include "serve/scheduler/request.h"
#include "text/chat/chat_prompt.h"

namespace ballast::serve {

struct ChatRequest {
  text::Conversation conversation;
  ToolFields tools{};
  FieldConstraint answer{};      ///< what the answer must match, beside thinking and calls
  GenerationRequest generation;  ///< without a prompt, max_tokens by its length, and the constraint of the whole reply
  PromptOptions prompt_options{.add_special_tokens = false};
  AnswerLimit limit{};
  std::optional<std::size_t> prompt_logprobs{};
  std::string echo{};  ///< the beginning of the answer
  Delivery delivery;
  bool parses_reply = true;  ///< separates thinking and calls from the answer; otherwise all text is the answer
  std::optional<std::size_t> thinking_tokens{};  ///< the most that the model may think with
  bool shows_thinking = true;                    ///< includes it in the response
  bool repeats_answer = false;                   ///< at the end of a stream
};

/// Returns the field that restricts the reply: that of the answer's constraint, or "tools"; empty if neither does.
std::string constraint_field(const ChatRequest& request);

/// Returns whether a conversation offers tools, or has calls or results of tools.
bool mentions_tools(const text::Conversation& conversation);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_CHAT_REQUEST_H_
