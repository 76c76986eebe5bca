// How much memory a request takes, estimated before the work on it begins.
#ifndef BALLAST_SERVE_SERVICE_REQUEST_MEMORY_H_
#define BALLAST_SERVE_SERVICE_REQUEST_MEMORY_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "serve/scheduler/request.h"

namespace ballast::serve {

/// Bytes of a body, of its JSON and of the copies of its texts that are made while it is read. `copies`: of the body,
/// where every byte of it is text.
std::size_t body_bytes(std::string_view body, std::size_t copies);

/// Bytes of what a body's texts become in a chat template: characters of 4 bytes, in several copies.
inline constexpr std::size_t kTemplateCopies = 16;
inline constexpr std::size_t kTextCopies = 4;

/// What an answer consists of besides its tokens.
struct AnswerShape {
  bool echo = false;    ///< its texts begin with their prompts
  bool stream = false;  ///< what is sent is not kept
  std::optional<std::size_t> logprobs{};
  std::optional<std::size_t> prompt_logprobs{};
};

/// Bytes of the prompts of `requests`, and of their texts until they are sent.
std::size_t generation_bytes(std::span<const GenerationRequest> requests, const AnswerShape& shape);

/// Bytes of vectors of `size` numbers for `requests`, and of their text.
std::size_t embedding_bytes(std::span<const GenerationRequest> requests, std::size_t size, bool base64);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_REQUEST_MEMORY_H_
