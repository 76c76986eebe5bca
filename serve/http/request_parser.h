// Reads one request from bytes as they come.
#ifndef BALLAST_SERVE_HTTP_REQUEST_PARSER_H_
#define BALLAST_SERVE_HTTP_REQUEST_PARSER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "serve/http/http_message.h"
#include "serve/http/http_server.h"

namespace ballast::serve {

/// Stricter than RFC 9112 asks for wherever two readers of the same bytes could disagree on where a request ends: a
/// proxy on the way and this one must see the same requests.
class RequestParser {
 public:
  enum class Stage { kHead, kBody, kDone, kFailed };

  explicit RequestParser(const HttpLimits& limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  /// Reads from the front of `bytes`, not beyond the end of the head or of the request, and says how many it used. What
  /// it left, it gets again, with more after it. Nothing when it needs more.
  std::size_t feed(std::string_view bytes);

  Stage stage() const { return stage_; }

  /// Of the failure.
  unsigned status() const { return status_; }
  const std::string& problem() const { return problem_; }

  /// From the end of the head on.
  bool keep_alive() const;
  bool http_1_0() const;
  bool expects_continue() const;    ///< "100 Continue" before it sends the body
  const HttpRequest& head() const;  ///< the body is not in it, or not all of it

  /// Once, when done.
  HttpRequest take();

 private:
  class Fields;  ///< where Boost stays in

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
