// Turns a conversation into a prompt by the model's chat template.
#ifndef BALLAST_TEXT_CHAT_CHAT_PROMPT_H_
#define BALLAST_TEXT_CHAT_CHAT_PROMPT_H_

#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/chat.h"
#include "text/byte_range.h"
#include "text/tokenizer.h"

namespace ballast::text {

/// The input of a chat template, as in transformers.
struct Conversation {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();    ///< objects with role, content and more
  nlohmann::ordered_json tools{};                                       ///< null, or a list as in OpenAI's API
  nlohmann::ordered_json arguments = nlohmann::ordered_json::object();  ///< by name: enable_thinking ...
  bool add_generation_prompt = true;  ///< the prompt ends at the beginning of the answer, else after the last message
  bool continue_final_message =
      false;  ///< the prompt ends at the end of the last message's text, which the answer continues
};

/// Returns a message as a JSON object: role, content and its other fields. Invalid UTF-8 is replaced. Throws Error if
/// the fields are not a JSON object, or contain a role.
nlohmann::ordered_json chat_message_json(const ChatMessage& message);

/// Parses a message from such an object. An assistant's content may be missing. Throws Error naming `context` for an
/// object without a role, and for content that is neither text nor a list with text parts.
ChatMessage read_chat_message(const nlohmann::ordered_json& json, const std::string& context);

/// Invalid UTF-8 is replaced. Throws Error if `arguments` is not the text of a JSON object.
Conversation make_conversation(std::span<const ChatMessage> messages, const std::string& arguments = {});

struct ChatPrompt {
  std::string text;
  std::vector<ByteRange> from_user;  ///< ranges in which special tokens are plain text
  bool continues_message = false;    ///< the answer continues the last message
};

/// Returns whether the model's chat template writes the tools that a conversation offers.
bool template_takes_tools(const Tokenizer& tokenizer);

/// Returns the prompt up to the beginning of the assistant's answer; it includes BOS if the template writes it. The
/// arguments of tool calls may be objects or their JSON text: the template gets what it can write. Throws Error if the
/// model has no template, for an invalid one, for a conversation that it refuses, for tools if it takes none, and if
/// the last message is to be continued and the template leaves its text out. `now` is for templates that write the
/// date; local time by default.
ChatPrompt apply_chat_template(const Tokenizer& tokenizer, const Conversation& conversation,
                               const std::optional<std::tm>& now = std::nullopt);

/// Encodes a prompt; only special tokens written by the template are special. `most`: see Tokenizer::encode.
std::vector<int> encode(const Tokenizer& tokenizer, const ChatPrompt& prompt, std::size_t most = Tokenizer::kNoLimit);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_CHAT_CHAT_PROMPT_H_
