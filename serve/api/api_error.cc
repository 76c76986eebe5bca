#include "serve/api/api_error.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/api/json_text.h"

namespace ballast::serve {
namespace {

/// Returns the error types of OpenAI's API by which clients distinguish errors.
std::string_view type_of(unsigned status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

}  // namespace

ApiError::ApiError(unsigned status, std::string message, std::string param)
    : status_(status), message_(std::move(message)), param_(std::move(param)) {}

ApiError ApiError::with_code(std::string code) && {
  code_ = std::move(code);
  return std::move(*this);
}

ApiError ApiError::with_header(std::string name, std::string value) && {
  headers_.emplace_back(std::move(name), std::move(value));
  return std::move(*this);
}

ApiError ApiError::with_retry_after(double seconds) && {
  return std::move(*this).with_header("Retry-After", std::to_string(static_cast<long>(std::ceil(seconds))));
}

std::string ApiError::body() const {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::json() : nlohmann::json(text);
  };
  return json_text({{"error",
                     {{"message", message_},
                      {"type", type_of(status_)},
                      {"param", text_or_null(param_)},
                      {"code", text_or_null(code_)}}}});
}

HttpResponse ApiError::response() const {
  HttpResponse response = {.status = status_, .body = body(), .headers = headers_};
  if (status_ == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace ballast::serve
