// A request that is answered with an error, in the form of the API that the client speaks.
#ifndef BALLAST_SERVE_API_API_ERROR_H_
#define BALLAST_SERVE_API_API_ERROR_H_

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

#include "serve/http/http_message.h"

namespace ballast::serve {

/// How an API writes an error.
enum class ErrorForm : std::uint8_t {
  kOpenAi,     ///< {"error":{"message","type","param","code"}}
  kResponses,  ///< the same; in a stream an event "error"
  kMessages,   ///< Anthropic's {"type":"error","error":{"type","message"}}
  kOllama,     ///< {"error":"message"}
};

class ApiError : public std::exception {
 public:
  /// `param` names the wrong field; it is empty if the error is not about one field.
  ApiError(unsigned status, std::string message, std::string param = {});

  const char* what() const noexcept override { return message_.c_str(); }
  unsigned status() const { return status_; }

  /// Sets a code such as "queue_full", by which clients can count errors.
  ApiError with_code(std::string code) &&;

  /// Adds a header to the response.
  ApiError with_header(std::string name, std::string value) &&;

  /// Sets the seconds after which the client may try again.
  ApiError with_retry_after(double seconds) &&;

  std::string body(ErrorForm form) const;
  HttpResponse response(ErrorForm form) const;

  /// Returns the error as a piece of a stream that has begun.
  std::string event(ErrorForm form) const;

 private:
  unsigned status_;
  std::string message_;
  std::string param_;
  std::string code_;
  HttpHeaders headers_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_API_ERROR_H_
