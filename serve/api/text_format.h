// The JSON of a text answer: one implementation for each endpoint.
#ifndef BALLAST_SERVE_API_TEXT_FORMAT_H_
#define BALLAST_SERVE_API_TEXT_FORMAT_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ballast/generate.h"
#include "serve/scheduler/request.h"
#include "text/tokenizer.h"

namespace ballast::serve {

/// A part of a choice: one piece of a stream, or the whole text.
struct TextPart {
  std::size_t choice = 0;
  std::string_view text{};
  std::string_view thinking{};  ///< only in chats
  std::span<const GeneratedToken> tokens{};
  std::span<const std::size_t> text_offsets{};  ///< the beginning of each token in the choice, in code points
  std::optional<GenerateResult::Finish> finish{};
};

class TextFormat {
 public:
  TextFormat() = default;
  virtual ~TextFormat() = default;
  TextFormat(const TextFormat&) = delete;
  TextFormat& operator=(const TextFormat&) = delete;

  virtual std::string_view object() const = 0;        ///< "text_completion"
  virtual std::string_view piece_object() const = 0;  ///< in a stream
  virtual nlohmann::ordered_json choice(const TextPart& part) const = 0;
  virtual nlohmann::ordered_json piece(const TextPart& part) const = 0;

  /// Returns the first piece of a choice's stream; null: no such piece.
  virtual nlohmann::ordered_json first_piece(std::size_t choice) const = 0;

  /// Returns whether prompt_logprobs belong to each choice; otherwise they are next to the choices.
  virtual bool tells_prompt_of_choices() const = 0;
};

/// Returns "stop" or "length"; null while the text continues.
nlohmann::ordered_json finish_reason(const std::optional<GenerateResult::Finish>& finish);

nlohmann::ordered_json usage_json(const RequestUsage& usage);

/// Returns prompt_logprobs in vLLM's form: for each token of the prompt an object with the actual token and the `top`
/// most likely ones, by id. `scores` are those of all tokens of the prompt but the first, which gets null.
nlohmann::ordered_json prompt_logprobs_json(const text::Tokenizer& tokenizer, std::span<const GeneratedToken> scores,
                                            std::size_t top);

/// Returns a token's text, also for special tokens.
std::string token_text(const text::Tokenizer& tokenizer, int id);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_TEXT_FORMAT_H_
