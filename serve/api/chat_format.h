// POST /v1/chat/completions.
#ifndef BALLAST_SERVE_API_CHAT_FORMAT_H_
#define BALLAST_SERVE_API_CHAT_FORMAT_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ballast/chat.h"
#include "serve/api/generation_fields.h"
#include "serve/api/text_format.h"
#include "text/chat/chat_prompt.h"

namespace ballast::serve {

struct ChatRequest {
  text::Conversation conversation;
  GenerationRequest generation;  ///< without a prompt, and max_tokens by its length
  PromptOptions prompt_options;
  AnswerLimit limit;
  std::optional<std::size_t> prompt_logprobs{};
  std::string echo{};  ///< the beginning of the answer
  Delivery delivery;
  bool parses_reply = true;    ///< separates thinking from the answer; otherwise all text is the answer
  bool shows_thinking = true;  ///< includes it in the response
};

/// Reads messages and the arguments of the chat template, as /apply-template and /tokenize accept them, too. Throws
/// ApiError.
text::Conversation read_conversation(const RequestFields& fields);

/// Returns whether messages contain tool calls or results of tools.
bool tells_of_tools(const text::Conversation& conversation);

/// Throws ApiError.
ChatRequest read_chat(const RequestFields& fields, std::size_t vocab_size);

class ChatFormat : public TextFormat {
 public:
  /// `logprobs`: whether they are requested. The tokenizer must outlive this object.
  ChatFormat(const text::Tokenizer& tokenizer, bool logprobs) : tokenizer_(tokenizer), logprobs_(logprobs) {}

  std::string_view object() const override { return "chat.completion"; }
  std::string_view piece_object() const override { return "chat.completion.chunk"; }
  nlohmann::ordered_json choice(const TextPart& part) const override;
  nlohmann::ordered_json piece(const TextPart& part) const override;
  nlohmann::ordered_json first_piece(std::size_t choice) const override;
  bool tells_prompt_of_choices() const override { return false; }

 private:
  nlohmann::ordered_json token_json(int id, double logprob) const;
  nlohmann::ordered_json logprobs_json(const TextPart& part) const;

  const text::Tokenizer& tokenizer_;
  bool logprobs_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_CHAT_FORMAT_H_
