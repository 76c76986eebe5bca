// How an answer that is text is written: the words of one endpoint.
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

/// A part of a choice: of a stream one piece, else all of it.
struct TextPart {
  std::size_t choice = 0;
  std::string_view text{};
  std::string_view thinking{};  ///< of a chat
  std::span<const GeneratedToken> tokens{};
  std::span<const std::size_t> text_offsets{};  ///< where each of the tokens begins in the choice, in code points
  std::optional<GenerateResult::Finish> finish{};
};

class TextFormat {
 public:
  TextFormat() = default;
  virtual ~TextFormat() = default;
  TextFormat(const TextFormat&) = delete;
  TextFormat& operator=(const TextFormat&) = delete;

  virtual std::string_view object() const = 0;        ///< "text_completion"
  virtual std::string_view piece_object() const = 0;  ///< of a stream
  virtual nlohmann::ordered_json choice(const TextPart& part) const = 0;
  virtual nlohmann::ordered_json piece(const TextPart& part) const = 0;

  /// What a choice's stream begins with; null: nothing.
  virtual nlohmann::ordered_json first_piece(std::size_t choice) const = 0;

  /// Where prompt_logprobs are said: of each choice, else once beside the choices.
  virtual bool tells_prompt_of_choices() const = 0;
};

/// "stop" or "length"; null while the text goes on.
nlohmann::ordered_json finish_reason(const std::optional<GenerateResult::Finish>& finish);

nlohmann::ordered_json usage_json(const RequestUsage& usage);

/// prompt_logprobs in vLLM's form: for each token of the prompt an object of the actual token and the `top` most likely
/// ones by id. `scores`: of the prompt's tokens but the first one, which has null.
nlohmann::ordered_json prompt_logprobs_json(const text::Tokenizer& tokenizer, std::span<const GeneratedToken> scores,
                                            std::size_t top);

/// A token's text, special tokens' included.
std::string token_text(const text::Tokenizer& tokenizer, int id);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_TEXT_FORMAT_H_
