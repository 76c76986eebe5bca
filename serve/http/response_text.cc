#include "serve/http/response_text.h"

#include <time.h>

#include <array>
#include <charconv>
#include <ctime>
#include <utility>

namespace ballast::serve {

namespace {

std::string_view reason_of(unsigned status) {
  static constexpr std::pair<unsigned, std::string_view> kReasons[] = {
      {200, "OK"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {413, "Content Too Large"},
      {415, "Unsupported Media Type"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {503, "Service Unavailable"},
  };
  for (const auto& [known, reason] : kReasons) {
    if (known == status) return reason;
  }
  return "Unknown";
}

void append_number(std::string& text, std::size_t number, int base) {
  std::array<char, 24> digits;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number, base);
  text.append(digits.data(), end);
}

/// Appends a header. A line feed in a value that contains client data would allow the client to inject a header.
void append_field(std::string& text, std::string_view name, std::string_view value) {
  text.append(name).append(": ");
  for (const char character : value) {
    const bool control = (static_cast<unsigned char>(character) < ' ' && character != '\t') || character == '\x7f';
    text.push_back(control ? ' ' : character);
  }
  text.append("\r\n");
}

std::string date_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 64> text;
  return {text.data(), std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

/// Returns the head without the empty line at its end.
std::string common_head(const HttpResponse& response, AnswerForm form) {
  std::string text = "HTTP/1.1 ";
  append_number(text, response.status, 10);
  text.append(" ").append(reason_of(response.status)).append("\r\n");
  append_field(text, "Date", date_text());
  if (!response.content_type.empty()) append_field(text, "Content-Type", response.content_type);
  for (const auto& [name, value] : response.headers) append_field(text, name, value);
  if (!form.keep_alive) {
    append_field(text, "Connection", "close");
  } else if (form.http_1_0) {
    append_field(text, "Connection", "keep-alive");
  }
  return text;
}

}  // namespace

std::string response_head_text(const HttpResponse& response, AnswerForm form) {
  std::string text = common_head(response, form);
  text.append("Content-Length: ");
  append_number(text, response.body.size(), 10);
  return text.append("\r\n\r\n");
}

std::string stream_head_text(const HttpResponse& head, AnswerForm form) {
  std::string text = common_head(head, form);
  if (!form.http_1_0) append_field(text, "Transfer-Encoding", "chunked");
  return text.append("\r\n");
}

std::string chunk_text(std::string_view piece) {
  std::string text;
  text.reserve(piece.size() + 20);
  append_number(text, piece.size(), 16);
  return text.append("\r\n").append(piece).append("\r\n");
}

HttpResponse error_response(unsigned status, std::string_view type, std::string_view message) {
  HttpResponse response;
  response.status = status;
  response.body.append("{\"error\":{\"message\":\"").append(message).append("\",\"type\":\"").append(type);
  response.body.append("\",\"param\":null,\"code\":null}}");
  return response;
}

}  // namespace ballast::serve
