// POST /v1/chat/completions.
#ifndef BALLAST_SERVE_API_CHAT_FORMAT_H_
#define BALLAST_SERVE_API_CHAT_FORMAT_H_

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ballast/chat.h"
#include "serve/api/generation_fields.h"
#include "serve/api/text_format.h"

namespace ballast::serve {

struct ChatRequest {
  std::vector<ChatMessage> messages;
  GenerationRequest generation;  ///< without a prompt, and max_tokens by its length
  std::string most_tokens_field;
  std::map<std::string, nlohmann::json> template_options{};  ///< chat_template_kwargs
  Delivery delivery;
};

/// The conversation alone, as /apply-template takes it, too. Throws ApiError.
std::vector<ChatMessage> read_messages(const RequestFields& fields);

/// Throws ApiError.
ChatRequest read_chat(const RequestFields& fields, std::size_t vocab_size);

/// The prompt by the model's chat template. Throws Error for a conversation that it refuses, ApiError for an option of
/// it that is not supported.
std::string chat_prompt(const text::Tokenizer& tokenizer, const ChatRequest& request);

class ChatFormat : public TextFormat {
 public:
  /// `logprobs`: whether they are wanted. The tokenizer must outlive it.
  ChatFormat(const text::Tokenizer& tokenizer, bool logprobs) : tokenizer_(tokenizer), logprobs_(logprobs) {}

  std::string_view object() const override { return "chat.completion"; }
  std::string_view piece_object() const override { return "chat.completion.chunk"; }
  nlohmann::ordered_json choice(const TextPart& part) const override;
  nlohmann::ordered_json piece(const TextPart& part) const override;
  nlohmann::ordered_json first_piece(std::size_t choice) const override;

 private:
  nlohmann::ordered_json token_json(int id, double logprob) const;
  nlohmann::ordered_json logprobs_json(const TextPart& part) const;

  const text::Tokenizer& tokenizer_;
  bool logprobs_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_CHAT_FORMAT_H_
