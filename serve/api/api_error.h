// A request that is answered with an error, in OpenAI's form.
#ifndef BALLAST_SERVE_API_API_ERROR_H_
#define BALLAST_SERVE_API_API_ERROR_H_

#include <exception>
#include <string>
#include <string_view>

#include "serve/http/http_message.h"

namespace ballast::serve {

class ApiError : public std::exception {
 public:
  /// `param` names the field that is wrong; empty where it is none in particular.
  ApiError(unsigned status, std::string message, std::string param = {});

  const char* what() const noexcept override { return message_.c_str(); }
  unsigned status() const { return status_; }

  /// For clients that count what goes wrong: "queue_full".
  ApiError with_code(std::string code) &&;

  /// A header that goes with it.
  ApiError with_header(std::string name, std::string value) &&;

  /// When trying again makes sense.
  ApiError with_retry_after(double seconds) &&;

  /// {"error":{"message","type","param","code"}}
  std::string body() const;
  HttpResponse response() const;

 private:
  unsigned status_;
  std::string message_;
  std::string param_;
  std::string code_;
  HttpHeaders headers_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_API_ERROR_H_
