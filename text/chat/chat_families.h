// The families of chat templates. There is no Jinja here: a template is recognised by its distinctive parts, and what
// it does is written out. Where members of a family differ, the template's own text decides.
#ifndef BALLAST_TEXT_CHAT_CHAT_FAMILIES_H_
#define BALLAST_TEXT_CHAT_CHAT_FAMILIES_H_

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace ballast::text {

/// What a template is applied to. Views must outlive it.
struct Chat {
  std::string_view chat_template;
  std::string bos;  ///< text of the tokens; empty when there is none
  std::string eos;
  std::span<const ChatMessage> messages;
  std::chrono::year_month_day today;
};

struct ChatFamily {
  std::string_view name;
  bool (*recognises)(std::string_view chat_template);

  /// The prompt, ending where the assistant's answer begins. Throws Error for conversations that the template refuses.
  std::string (*render)(const Chat& chat);
};

extern const ChatFamily kChatMl;
extern const ChatFamily kQwen3Chat;
extern const ChatFamily kLlama2Chat;
extern const ChatFamily kLlama3Chat;
extern const ChatFamily kMistralChat;
extern const ChatFamily kDeepSeekV2Chat;
extern const ChatFamily kDeepSeekV3Chat;

/// The end of what a model thinks before it answers.
inline constexpr std::string_view kThinkEnd = "</think>";

/// Whether `chat_template` contains every one of `parts`.
bool has_all(std::string_view chat_template, std::initializer_list<std::string_view> parts);
bool has_any(std::string_view chat_template, std::initializer_list<std::string_view> parts);

/// The text between Jinja's quotes with its escapes resolved.
std::string unescape(std::string_view literal);

/// The first string literal after the last "if add_generation_prompt", unescaped; empty when there is none.
std::string generation_prompt(std::string_view chat_template);

/// `text` without white space at its ends, as Python's strip and Jinja's trim.
std::string trimmed(std::string_view text);

/// Throws Error unless the messages are user, assistant, user ... with an optional system message in front, which is
/// taken off and returned (null without one).
const ChatMessage* take_system(std::span<const ChatMessage>& messages);
void require_alternating(std::span<const ChatMessage> messages);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_CHAT_CHAT_FAMILIES_H_
