#include <array>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>

#include "ballast/error.h"
#include "files/text.h"
#include "text/chat/chat_families.h"
#include "text/tokenizer.h"

namespace ballast::text {
namespace {

constexpr std::array<const ChatFamily*, 7> kChatFamilies{&kQwen3Chat,   &kChatMl,         &kLlama2Chat,    &kLlama3Chat,
                                                         &kMistralChat, &kDeepSeekV2Chat, &kDeepSeekV3Chat};

// What other families write, to refuse them by name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kOthers{{
    {"<start_of_turn>", "Gemma's"},
    {"[SYSTEM_PROMPT]", "Mistral's with [SYSTEM_PROMPT] (V7)"},
    {"<|start_of_role|>", "Granite's"},
    {"<|START_OF_TURN_TOKEN|>", "Command R's"},
    {"<|channel|>", "gpt-oss's"},
    {"<|user|>", "Phi's or Zephyr's"},
    {"<|im_start|>", "a variety of ChatML that changes the messages"},
    {"<|start_header_id|>", "a variety of Llama 3's"},
    {"[INST]", "a variety of Mistral's or Llama 2's"},
}};

[[noreturn]] void refuse(std::string_view chat_template) {
  std::string known;
  for (const ChatFamily* family : kChatFamilies) known += (known.empty() ? "" : ", ") + std::string(family->name);
  std::string what = "an unknown one";
  for (const auto& [mark, name] : kOthers) {
    if (!chat_template.contains(mark)) continue;
    what = name;
    break;
  }
  throw UnsupportedError("chat template", "it is " + what + " and begins with " +
                                              files::in_quotes(chat_template.substr(0, 60)) + "; supported are " +
                                              known + "; give a plain prompt instead");
}

std::chrono::year_month_day local_date() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return std::chrono::year(local.tm_year + 1900) / (local.tm_mon + 1) / local.tm_mday;
}

}  // namespace

std::string apply_chat_template(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                                std::optional<std::chrono::year_month_day> today) {
  if (messages.empty()) throw Error("conversation", "has no message");
  const std::string& chat_template = tokenizer.chat_template();
  if (chat_template.empty()) throw Error("chat template", "the model has none; give a plain prompt instead");
  const auto text = [&](std::optional<int> token) { return token ? tokenizer.token_bytes(*token) : std::string(); };
  for (const ChatFamily* family : kChatFamilies) {
    if (!family->recognises(chat_template)) continue;
    return family->render(
        {chat_template, text(tokenizer.bos()), text(tokenizer.eos()), messages, today ? *today : local_date()});
  }
  refuse(chat_template);
}

}  // namespace ballast::text
