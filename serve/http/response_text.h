// Responses as bytes: heads, chunks, and the bodies of errors of the network layer.
#ifndef BALLAST_SERVE_HTTP_RESPONSE_TEXT_H_
#define BALLAST_SERVE_HTTP_RESPONSE_TEXT_H_

#include <string>
#include <string_view>

#include "serve/http/http_message.h"

namespace ballast::serve {

/// The properties of the request and its connection that change the form of an answer.
struct AnswerForm {
  bool http_1_0 = false;
  bool head_only = false;   ///< HEAD: the same head, without the body
  bool keep_alive = false;  ///< the connection remains open for another request
};

/// Returns the head of an answer with its length.
std::string response_head_text(const HttpResponse& response, AnswerForm form);

/// Returns the head of a stream, whose body is sent in chunks; for HTTP/1.0, which has no chunks, the connection ends
/// it.
std::string stream_head_text(const HttpResponse& head, AnswerForm form);

/// Returns one chunk. `piece` must not be empty: an empty chunk is the end.
std::string chunk_text(std::string_view piece);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

/// Returns an error in OpenAI's form. `type` and `message` must not contain characters that JSON escapes.
HttpResponse error_response(unsigned status, std::string_view type, std::string_view message);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_HTTP_RESPONSE_TEXT_H_
