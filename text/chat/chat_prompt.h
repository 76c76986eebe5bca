// From a conversation to a prompt, by the model's chat template.
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

/// What a chat template is applied to, as transformers takes it.
struct Conversation {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();    ///< objects with role, content and more
  nlohmann::ordered_json tools{};                                       ///< null, or a list of their schemas
  nlohmann::ordered_json arguments = nlohmann::ordered_json::object();  ///< by name: enable_thinking ...
  bool add_generation_prompt = true;  ///< the prompt ends where the answer begins, else after the last message
  bool continue_final_message =
      false;  ///< the prompt ends where the last message's text ends, which the answer continues
};

/// A message as a JSON object: role, content and its other fields. Text that is not UTF-8 is mended. Throws Error when
/// the fields are no JSON object, or name a role.
nlohmann::ordered_json chat_message_json(const ChatMessage& message);

/// The message that such an object is. An assistant's content may be missing. Throws Error naming `context` for an
/// object without a role, and for content that is no text and has none in its parts.
ChatMessage read_chat_message(const nlohmann::ordered_json& json, const std::string& context);

/// Text that is not UTF-8 is mended. Throws Error when `arguments`, the text of a JSON object, is not one.
Conversation make_conversation(std::span<const ChatMessage> messages, const std::string& arguments = {});

struct ChatPrompt {
  std::string text;
  std::vector<ByteRange> from_user;  ///< where special tokens are plain text
  bool continues_message = false;    ///< the last message of the conversation goes on in the answer
};

/// Ends where the assistant's answer begins; BOS is a part of it where the template writes one. Throws Error when the
/// model has no template, for one that is wrong, for a conversation that it refuses, and where the last message is to
/// be continued and the template leaves its text out. `now`: for templates that write the date; local time by default.
ChatPrompt apply_chat_template(const Tokenizer& tokenizer, const Conversation& conversation,
                               const std::optional<std::tm>& now = std::nullopt);

/// Special tokens are those that the template wrote. `most`: see Tokenizer::encode.
std::vector<int> encode(const Tokenizer& tokenizer, const ChatPrompt& prompt, std::size_t most = Tokenizer::kNoLimit);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_CHAT_CHAT_PROMPT_H_
