// What a request says of how a text goes on, alike for completions and chats.
#ifndef BALLAST_SERVE_API_GENERATION_FIELDS_H_
#define BALLAST_SERVE_API_GENERATION_FIELDS_H_

#include <cstddef>
#include <optional>
#include <string>

#include "ballast/generate.h"
#include "serve/api/request_fields.h"
#include "serve/scheduler/request.h"

namespace ballast::serve {

inline constexpr std::size_t kMostChoices = 128;
inline constexpr std::int64_t kMostTopLogprobs = 20;

/// How an answer is to be sent.
struct Delivery {
  bool stream = false;
  bool include_usage = false;  ///< in a last piece of a stream
};

Delivery read_delivery(const RequestFields& fields);

/// Temperature, penalties, stops, seed, n, salt: all but the prompt, lengths and log-probabilities. Refuses by name
/// what would change the answer and is not there (tools, response_format). `vocab_size`: ids are below it.
GenerationRequest read_generation(const RequestFields& fields, std::size_t vocab_size);

/// How many tokens a text of `prompt_tokens` may have more, by the field `name` or, without it, `fallback` at most.
/// Throws ApiError where that is beyond the context.
std::size_t read_most_tokens(const RequestFields& fields, std::string_view name, std::size_t prompt_tokens,
                             std::size_t context_length, std::size_t fallback);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_GENERATION_FIELDS_H_
