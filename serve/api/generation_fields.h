// Fields that set how a text is generated, shared by completions and chats.
#ifndef BALLAST_SERVE_API_GENERATION_FIELDS_H_
#define BALLAST_SERVE_API_GENERATION_FIELDS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/generate.h"
#include "serve/api/request_fields.h"
#include "serve/scheduler/request.h"
#include "text/tokenizer.h"

namespace ballast::serve {

inline constexpr std::size_t kMostChoices = 128;
inline constexpr std::int64_t kMostTopLogprobs = 20;

/// How an answer is sent.
struct Delivery {
  bool stream = false;
  bool include_usage = false;  ///< in the last piece of a stream
};

Delivery read_delivery(const RequestFields& fields);

/// What reading a request needs to know of the model.
struct ModelFacts {
  std::size_t vocab_size = 0;
  GenerationDefaults defaults{};  ///< replace missing fields
};

/// Reads the stop strings of a field: one text or a list.
std::vector<std::string> read_stops(const RequestFields& fields, std::string_view field);

/// Reads temperature, penalties, stops, seed, n and salt; not the prompt, lengths, words, constraints and
/// log-probabilities.
GenerationRequest read_generation(const RequestFields& fields, const ModelFacts& model);

/// Reads `prompt_logprobs`: how many of the most likely tokens are returned for each token of the prompt; nullopt if
/// not requested. Throws ApiError for a stream, as vLLM does.
std::optional<std::size_t> read_prompt_logprobs(const RequestFields& fields, const Delivery& delivery);

/// Reads `bad_words` as token sequences: each word as it is encoded at the beginning of a text, after a space and
/// within a text.
std::vector<std::vector<int>> read_bad_words(const RequestFields& fields, const text::Tokenizer& tokenizer);

/// Options of converting a prompt to tokens.
struct PromptOptions {
  bool add_special_tokens = true;
  std::optional<std::int64_t>
      truncate{};             ///< tokens that are kept of a longer prompt; -1: as many as the context has room for
  bool keep_end = true;       ///< keeps the last tokens, else the first ones
  bool makes_vector = false;  ///< adds special tokens after the prompt, also for a decoder
};

/// Returns to how many tokens a text is cut that is read as a whole and of which at most `most` fit.
std::size_t kept_tokens(const PromptOptions& options, std::size_t most);

/// `usual` has the values of missing fields.
PromptOptions read_prompt_options(const RequestFields& fields, const PromptOptions& usual);

/// The number of tokens that a request allows for its answer.
struct AnswerLimit {
  std::string_view field{};              ///< the field with the limit
  std::optional<std::int64_t> tokens{};  ///< absent: not limited by the request; -1: the rest of the context
};

/// Reads the first of the fields in `names` that is present.
AnswerLimit read_answer_limit(const RequestFields& fields, std::span<const std::string_view> names);

/// Returns the refusal of a prompt that does not fit, in words by which agents for code recognize it, so that they
/// shorten their conversation.
ApiError prompt_too_long(std::size_t tokens, std::size_t context_length);

/// Returns how many tokens the answer to a prompt of `prompt_tokens` may have: `usual` if the limit is absent, at most
/// `most` and the rest of the context otherwise. Throws ApiError if the context has no room.
std::size_t answer_tokens(const AnswerLimit& limit, std::size_t prompt_tokens, std::size_t context_length,
                          std::size_t usual, std::size_t most);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_GENERATION_FIELDS_H_
