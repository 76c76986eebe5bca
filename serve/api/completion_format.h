// POST /v1/completions.
#ifndef BALLAST_SERVE_API_COMPLETION_FORMAT_H_
#define BALLAST_SERVE_API_COMPLETION_FORMAT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "serve/api/generation_fields.h"
#include "serve/api/text_format.h"

namespace ballast::serve {

/// A client's prompt: text or token ids.
using Prompt = std::variant<std::string, std::vector<int>>;

struct CompletionRequest {
  std::vector<Prompt> prompts;
  GenerationRequest generation;  ///< for each prompt; without a prompt and max_tokens, which depends on its length
  PromptOptions prompt_options;
  AnswerLimit limit;
  std::optional<std::size_t> prompt_logprobs{};
  bool echo = false;
  Delivery delivery;
};

/// Reads one prompt or a list of them: `field` is a string, ids, or a list of either.
std::vector<Prompt> read_prompts(const RequestFields& fields, std::string_view field, std::size_t vocab_size);

/// Throws ApiError.
CompletionRequest read_completion(const RequestFields& fields, std::size_t vocab_size);

class CompletionFormat : public TextFormat {
 public:
  /// `logprobs`: whether they are requested. The tokenizer must outlive this object.
  CompletionFormat(const text::Tokenizer& tokenizer, bool logprobs) : tokenizer_(tokenizer), logprobs_(logprobs) {}

  std::string_view object() const override { return "text_completion"; }
  std::string_view piece_object() const override { return "text_completion"; }
  nlohmann::ordered_json choice(const TextPart& part) const override;
  nlohmann::ordered_json piece(const TextPart& part) const override { return choice(part); }
  nlohmann::ordered_json first_piece(std::size_t /*choice*/) const override { return nullptr; }
  bool tells_prompt_of_choices() const override { return true; }

 private:
  nlohmann::ordered_json logprobs_json(const TextPart& part) const;

  const text::Tokenizer& tokenizer_;
  bool logprobs_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_COMPLETION_FORMAT_H_
