// What a request says of how a text goes on, alike for completions and chats.
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

/// How an answer is to be sent.
struct Delivery {
  bool stream = false;
  bool include_usage = false;  ///< in a last piece of a stream
};

Delivery read_delivery(const RequestFields& fields);

/// Temperature, penalties, stops, seed, n, salt: all but the prompt, lengths, words and log-probabilities.
/// `vocab_size`: ids are below it.
GenerationRequest read_generation(const RequestFields& fields, std::size_t vocab_size);

/// `prompt_logprobs`: how many of the most likely tokens are told of each token of the prompt; nothing where it is not
/// asked for. Throws ApiError for a stream, as vLLM does.
std::optional<std::size_t> read_prompt_logprobs(const RequestFields& fields, const Delivery& delivery);

/// `bad_words` as sequences of tokens: each word as it is written at the beginning of a text, after a space and within
/// a text.
std::vector<std::vector<int>> read_bad_words(const RequestFields& fields, const text::Tokenizer& tokenizer);

/// How a prompt becomes tokens.
struct PromptOptions {
  bool add_special_tokens = true;
  std::optional<std::int64_t> truncate{};  ///< tokens that are kept of a longer one; -1: what the context has room for
  bool keep_end = true;                    ///< the last tokens are kept, else the first ones
  bool makes_vector = false;               ///< special tokens are put after it, too, though it is a decoder's
};

/// `usual`: what holds for fields that are not there.
PromptOptions read_prompt_options(const RequestFields& fields, const PromptOptions& usual);

/// How many tokens an answer may have, as a request says it.
struct AnswerLimit {
  std::string_view field;                ///< that says it
  std::optional<std::int64_t> tokens{};  ///< absent: none does; -1: what the context leaves
};

/// Of the fields that say it the first one, in the order of `names`.
AnswerLimit read_answer_limit(const RequestFields& fields, std::span<const std::string_view> names);

/// How many tokens the answer to a prompt of `prompt_tokens` may have: `usual` where the limit says nothing, `most`
/// where it says that there is none, or more than the context leaves. Throws ApiError where the context leaves nothing.
std::size_t answer_tokens(const AnswerLimit& limit, std::size_t prompt_tokens, std::size_t context_length,
                          std::size_t usual, std::size_t most);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_GENERATION_FIELDS_H_
