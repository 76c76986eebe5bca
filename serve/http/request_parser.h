// A parser of one request from partial input.
#ifndef BALLAST_SERVE_HTTP_REQUEST_PARSER_H_
#define BALLAST_SERVE_HTTP_REQUEST_PARSER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "serve/http/http_message.h"
#include "serve/http/http_server.h"

namespace ballast::serve {

/// Is stricter than RFC 9112 requires wherever two readers could disagree about the end of a request: a proxy and this
/// server must see the same requests.
class RequestParser {
 public:
  enum class Stage { kHead, kBody, kDone, kFailed };

  explicit RequestParser(const HttpLimits& limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  /// Parses the front of `bytes`, at most to the end of the head or of the request, and returns how many bytes it used.
  /// The caller passes unused bytes again, with more after them. Returns 0 if it needs more.
  std::size_t feed(std::string_view bytes);

  Stage stage() const { return stage_; }

  /// The status of the failure.
  unsigned status() const { return status_; }
  const std::string& problem() const { return problem_; }

  /// Valid after the end of the head.
  bool keep_alive() const;
  bool http_1_0() const;
  bool expects_continue() const;    ///< the client waits for "100 Continue" before it sends the body
  const HttpRequest& head() const;  ///< without the body, or with a part of it

  /// Returns the request, once, when done.
  HttpRequest take();

 private:
  class Fields;  ///< hides Boost

  void fail(unsigned status, std::string problem);

  std::size_t header_bytes_;
  std::unique_ptr<Fields> fields_;
  Stage stage_ = Stage::kHead;
  std::size_t head_used_ = 0;
  unsigned status_ = 0;
  std::string problem_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_HTTP_REQUEST_PARSER_H_
