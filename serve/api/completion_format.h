// POST /v1/completions.
#ifndef BALLAST_SERVE_API_COMPLETION_FORMAT_H_
#define BALLAST_SERVE_API_COMPLETION_FORMAT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "serve/api/generation_fields.h"
#include "serve/api/openai_format.h"

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
  std::string constraint_field{};       ///< the field that has generation.options.constraint
  std::optional<std::string> suffix{};  ///< the text after a gap, which the answer fills
  Delivery delivery;
};

/// Reads one prompt or a list of them: `field` is a string, ids, or a list of either.
std::vector<Prompt> read_prompts(const RequestFields& fields, std::string_view field, std::size_t vocab_size);

/// Throws ApiError.
CompletionRequest read_completion(const RequestFields& fields, const ModelFacts& model);

class CompletionFormat : public OpenAiFormat {
 public:
  using OpenAiFormat::OpenAiFormat;

 protected:
  std::string_view object() const override { return "text_completion"; }
  std::string_view event_object() const override { return "text_completion"; }
  nlohmann::ordered_json choice_json(const AnswerPiece& choice) override;
  nlohmann::ordered_json piece_json(const AnswerPiece& piece) override { return choice_json(piece); }
  nlohmann::ordered_json first_piece(std::size_t /*choice*/) const override { return nullptr; }
  bool has_prompts_of_choices() const override { return true; }

 private:
  nlohmann::ordered_json logprobs_json(const AnswerPiece& piece) const;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_COMPLETION_FORMAT_H_
