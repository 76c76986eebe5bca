// Mistral's [INST], whose versions differ in spaces and in where the system message goes.
#include <algorithm>
#include <array>
#include <optional>

#include "ballast/error.h"
#include "text/chat/chat_families.h"

namespace ballast::text {
namespace {

struct MistralForm {
  std::string_view open;
  std::string_view close;
  std::string_view before_answer;
  bool trims_answer = false;
  std::string_view after_answer;  // after EOS
  enum class System { kRefused, kInFirst, kInLast } system = System::kRefused;
};

// The form that the template's expressions spell; nothing when they are others.
std::optional<MistralForm> form_of(std::string_view chat_template) {
  std::string text(chat_template);
  std::ranges::replace(text, '"', '\'');
  if (has_any(text, {"<<SYS>>", "[SYSTEM_PROMPT]"}) || !has_all(text, {"[INST]", "[/INST]", "bos_token"})) {
    return std::nullopt;
  }
  struct Question {
    std::string_view open;
    std::string_view close;
  };
  constexpr std::array<Question, 4> kQuestions{
      {{"[INST] ", " [/INST]"}, {" [INST] ", " [/INST]"}, {"[INST] ", "[/INST]"}, {"[INST]", "[/INST]"}}};
  const auto question = std::ranges::find_if(kQuestions, [&](const Question& candidate) {
    return text.contains("{ '" + std::string(candidate.open) + "' + message['content'] + '" +
                         std::string(candidate.close) + "' }") ||
           text.contains("- '" + std::string(candidate.open) + "' + message['content'] + '" +
                         std::string(candidate.close) + "' }");
  });
  if (question == kQuestions.end()) return std::nullopt;

  struct Answer {
    std::string_view expression;
    std::string_view before;
    bool trims;
    std::string_view after;
  };
  constexpr std::array<Answer, 9> kAnswers{{{"{{ message['content'] + eos_token + ' ' }}", "", false, " "},
                                            {"{{ message['content'] + eos_token}}", "", false, ""},
                                            {"{{ message['content'] + eos_token }}", "", false, ""},
                                            {"{{- message['content'] + eos_token}}", "", false, ""},
                                            {"{{- message['content'] + eos_token }}", "", false, ""},
                                            {"{{- ' ' + message['content'] + eos_token}}", " ", false, ""},
                                            {"{{- ' ' + message['content'] + eos_token }}", " ", false, ""},
                                            {"{{- ' ' + message['content']|trim + eos_token}}", " ", true, ""},
                                            {"{{- ' ' + message['content'] | trim + eos_token }}", " ", true, ""}}};
  const auto answer =
      std::ranges::find_if(kAnswers, [&](const Answer& candidate) { return text.contains(candidate.expression); });
  if (answer == kAnswers.end()) return std::nullopt;

  MistralForm form{question->open, question->close, answer->before, answer->trims, answer->after};
  if (text.contains("system_message")) {
    const bool first = text.contains("loop.first and system_message is defined");
    const bool last = text.contains("loop.last and system_message is defined");
    const bool usual = text.contains("system_message + '\\n\\n' + message['content']");
    if (first == last || !usual) return std::nullopt;
    form.system = first ? MistralForm::System::kInFirst : MistralForm::System::kInLast;
  }
  return form;
}

bool is_mistral(std::string_view chat_template) {
  return form_of(chat_template).has_value();
}

std::string render_mistral(const Chat& chat) {
  const std::optional<MistralForm> found = form_of(chat.chat_template);
  const MistralForm form = found.value_or(MistralForm{});
  std::span<const ChatMessage> messages = chat.messages;
  const ChatMessage* system = take_system(messages);
  if (system != nullptr && form.system == MistralForm::System::kRefused) {
    throw Error("conversation", "this model's template has no place for a system message");
  }
  require_alternating(messages);
  std::string prompt = chat.bos;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string& content = messages[i].content;
    if (messages[i].role == "assistant") {
      prompt.append(form.before_answer).append(form.trims_answer ? trimmed(content) : content);
      prompt.append(chat.eos).append(form.after_answer);
      continue;
    }
    const bool is_first = form.system == MistralForm::System::kInFirst && i == 0;
    const bool is_last = form.system == MistralForm::System::kInLast && i + 1 == messages.size();
    prompt.append(form.open);
    if (system != nullptr && (is_first || is_last)) prompt.append(system->content).append("\n\n");
    prompt.append(content).append(form.close);
  }
  return prompt;
}

}  // namespace

const ChatFamily kMistralChat{"Mistral", is_mistral, render_mistral};

}  // namespace ballast::text
