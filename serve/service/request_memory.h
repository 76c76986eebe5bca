// Estimates of a request's memory before the work on it begins.
#ifndef BALLAST_SERVE_SERVICE_REQUEST_MEMORY_H_
#define BALLAST_SERVE_SERVICE_REQUEST_MEMORY_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "serve/scheduler/request.h"
#include "serve/service/answer_shape.h"

namespace ballast::serve {

/// Returns the bytes of a body, of its JSON and of the copies of its texts while it is parsed. `copies` is the number
/// of copies if the whole body is text.
std::size_t body_bytes(std::string_view body, std::size_t copies);

/// Copies of a body's texts in a chat template, which uses characters of 4 bytes.
inline constexpr std::size_t kTemplateCopies = 16;
inline constexpr std::size_t kTextCopies = 4;

/// Returns the bytes of the prompts of `requests`, and of their texts until they are sent.
std::size_t generation_bytes(std::span<const GenerationRequest> requests, const AnswerShape& shape);

/// Returns the bytes of vectors of `size` numbers for `requests`, and of their JSON.
std::size_t embedding_bytes(std::span<const GenerationRequest> requests, std::size_t size, bool base64);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_REQUEST_MEMORY_H_
