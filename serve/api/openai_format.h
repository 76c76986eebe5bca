// The frame of OpenAI's answers: a list of choices, as one body or as events.
#ifndef BALLAST_SERVE_API_OPENAI_FORMAT_H_
#define BALLAST_SERVE_API_OPENAI_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "serve/api/answer_format.h"
#include "text/tokenizer.h"

namespace ballast::serve {

/// The fields beside the choices.
struct OpenAiHead {
  std::string id;  ///< "cmpl-..."
  std::string model;
  std::int64_t created = 0;    ///< seconds since 1970
  bool include_usage = false;  ///< in the last event of a stream
  bool logprobs = false;
  std::optional<std::size_t> prompt_logprobs{};  ///< most likely tokens returned for each token of the prompt
};

class OpenAiFormat : public AnswerFormat {
 public:
  /// The tokenizer must outlive this object.
  OpenAiFormat(const text::Tokenizer& tokenizer, OpenAiHead head) : tokenizer_(tokenizer), head_(std::move(head)) {}

  std::string begin_stream(std::size_t choices) override;
  std::string write_piece(const AnswerPiece& piece) override;
  std::string end_stream(const RequestUsage& usage) override;
  void add_choice(const AnswerPiece& choice, std::string& body) override;
  void end_body(const RequestUsage& usage, std::string& body) override;

 protected:
  virtual std::string_view object() const = 0;        ///< "text_completion"
  virtual std::string_view event_object() const = 0;  ///< in a stream
  virtual nlohmann::ordered_json choice_json(const AnswerPiece& choice) = 0;
  virtual nlohmann::ordered_json piece_json(const AnswerPiece& piece) = 0;

  /// Returns the first piece of a choice's stream; null: no such piece.
  virtual nlohmann::ordered_json first_piece(std::size_t choice) const = 0;

  /// Returns whether prompt_logprobs belong to each choice; otherwise they are next to the choices.
  virtual bool has_prompts_of_choices() const = 0;

  const text::Tokenizer& tokenizer() const { return tokenizer_; }
  bool logprobs() const { return head_.logprobs; }

 private:
  nlohmann::ordered_json head_json(std::string_view object) const;
  std::string event(nlohmann::ordered_json choices, const RequestUsage* usage) const;

  const text::Tokenizer& tokenizer_;
  OpenAiHead head_;
  nlohmann::ordered_json prompt_logprobs_{};  ///< of the prompt that all choices have
};

/// Returns "stop" or "length"; null while the text continues.
nlohmann::ordered_json finish_reason(const std::optional<ChoiceEnd>& end);

nlohmann::ordered_json usage_json(const RequestUsage& usage);

/// Returns the log-probabilities of tokens in OpenAI's form: a list of {"token","logprob","bytes","top_logprobs"}.
nlohmann::ordered_json token_logprobs_json(const text::Tokenizer& tokenizer, std::span<const GeneratedToken> tokens);

/// Returns a token's text, also for special tokens.
std::string token_text(const text::Tokenizer& tokenizer, int id);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_OPENAI_FORMAT_H_
