#include "serve/api/api_error.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/api/json_text.h"

namespace ballast::serve {
namespace {

/// Returns the error types of OpenAI's and Anthropic's APIs by which clients distinguish errors.
std::string_view type_of(unsigned status, ErrorForm form) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 413:
      return form == ErrorForm::kMessages ? "request_too_large" : "invalid_request_error";
    case 503:
      return form == ErrorForm::kMessages ? "overloaded_error" : "server_error";
    default:
      if (status < 500) return "invalid_request_error";
      return form == ErrorForm::kMessages ? "api_error" : "server_error";
  }
}

nlohmann::ordered_json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
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

std::string ApiError::body(ErrorForm form) const {
  switch (form) {
    case ErrorForm::kMessages:
      return json_text({{"type", "error"}, {"error", {{"type", type_of(status_, form)}, {"message", message_}}}});
    case ErrorForm::kOllama:
      return json_text({{"error", message_}});
    default:
      return json_text({{"error",
                         {{"message", message_},
                          {"type", type_of(status_, form)},
                          {"param", text_or_null(param_)},
                          {"code", text_or_null(code_)}}}});
  }
}

HttpResponse ApiError::response(ErrorForm form) const {
  HttpResponse response = {.status = status_, .body = body(form), .headers = headers_};
  if (status_ == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

std::string ApiError::event(ErrorForm form) const {
  switch (form) {
    case ErrorForm::kOllama:
      return body(form) + "\n";
    case ErrorForm::kMessages:
      return event_text("error", body(form));
    case ErrorForm::kResponses: {
      const nlohmann::ordered_json error = {{"type", "error"},
                                            {"code", code_.empty() ? std::string(type_of(status_, form)) : code_},
                                            {"message", message_},
                                            {"param", text_or_null(param_)}};
      return event_text("error", json_text(error));
    }
    default:
      return event_text({}, body(form));
  }
}

}  // namespace ballast::serve
