// Answers as bytes: heads, chunks, and the bodies of errors that the network itself tells.
#ifndef BALLAST_SERVE_HTTP_RESPONSE_TEXT_H_
#define BALLAST_SERVE_HTTP_RESPONSE_TEXT_H_

#include <string>
#include <string_view>

#include "serve/http/http_message.h"

namespace ballast::serve {

/// What of the request and its connection decides how an answer is put.
struct AnswerForm {
  bool http_1_0 = false;
  bool head_only = false;   ///< HEAD: as it would be, without the body
  bool keep_alive = false;  ///< the connection stays for another request
};

/// The head of an answer whose body follows it.
std::string response_head_text(const HttpResponse& response, AnswerForm form);

/// The head of a stream, whose body comes in chunks; HTTP/1.0 knows none: there it ends with the connection.
std::string stream_head_text(const HttpResponse& head, AnswerForm form);

/// One chunk. `piece` is not empty: that would be the end.
std::string chunk_text(std::string_view piece);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

/// In the form of OpenAI's errors. `type` and `message` have nothing that JSON escapes.
HttpResponse error_response(unsigned status, std::string_view type, std::string_view message);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_HTTP_RESPONSE_TEXT_H_
