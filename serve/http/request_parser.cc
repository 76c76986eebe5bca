#include "serve/http/request_parser.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <limits>
#include <utility>

namespace ballast::serve {

namespace {

namespace http = boost::beast::http;
using ParserError = boost::beast::error_code;

// A chunked body that is not complete needs at least the bytes "0\r\n\r\n". Beast asserts this size when it parses the
// last chunk again, and a client that sends "0\r\n", "\r" and "\n" separately would violate it.
constexpr std::size_t kLeastOfChunks = 5;

/// Returns the path of the target forms of RFC 9112 (3.2) "/path?query" and "http://host/path?query"; other forms are
/// returned unchanged.
std::string path_of(std::string_view target) {
  const std::size_t scheme = target.find("://");
  if (!target.starts_with('/') && scheme != std::string_view::npos && scheme < target.find('?')) {
    target.remove_prefix(scheme + 3);
    target.remove_prefix(std::min(target.find_first_of("/?"), target.size()));
    if (!target.starts_with('/')) return "/";
  }
  return std::string(target.substr(0, target.find('?')));
}

/// Returns what follows the first '?'.
std::string query_of(std::string_view target) {
  const std::size_t mark = target.find('?');
  return mark == std::string_view::npos ? std::string() : std::string(target.substr(mark + 1));
}

/// Returns whether a header is continued on another line, which other readers have parsed as part of the value or as a
/// header.
bool has_folded_line(std::string_view head) {
  return head.find("\r\n ") != std::string_view::npos || head.find("\r\n\t") != std::string_view::npos;
}

}  // namespace

/// Stores the parts that Beast finds in the request, without another copy. Beast refuses both kinds of lengths
/// together, bad line ends and spaces before a colon. It accepts repeated equal lengths, and treats unknown transfer
/// encodings as a request without a body, so these are refused here.
class RequestParser::Fields final : public http::basic_parser<true> {
 public:
  explicit Fields(const HttpLimits& limits) {
    header_limit(std::numeric_limits<std::uint32_t>::max());  // counted by the owner: Beast's limit is per call
    body_limit(limits.body_bytes);
  }

  HttpRequest request;
  bool http_1_0 = false;
  const char* reason = nullptr;  ///< for refusals that are not Beast's

 private:
  using Text = boost::beast::string_view;

  void on_request_impl(http::verb, Text method, Text target, int version, ParserError&) override {
    request.method.assign(method.data(), method.size());
    request.path = path_of({target.data(), target.size()});
    request.query = query_of({target.data(), target.size()});
    http_1_0 = version == 10;
  }

  void on_field_impl(http::field field, Text name, Text value, ParserError& error) override {
    if (head_ended_) return;  // trailers are ignored
    request.headers.emplace_back(lower_case({name.data(), name.size()}), std::string(value.data(), value.size()));
    const std::string& text = request.headers.back().second;
    if (field == http::field::host && std::exchange(has_host_, true)) refuse("two Host headers", error);
    if (field == http::field::content_length) {
      if (std::exchange(has_length_, true)) refuse("two Content-Length headers", error);
      if (text.find_first_not_of("0123456789") != std::string::npos) refuse("Content-Length is not a number", error);
    }
    if (field == http::field::transfer_encoding && (http_1_0 || lower_case(text) != "chunked")) {
      refuse("Transfer-Encoding is not chunked", error);
    }
  }

  void on_header_impl(ParserError& error) override {
    head_ended_ = true;
    if (!has_host_ && !http_1_0) refuse("the Host header is missing", error);
  }

  void refuse(const char* why, ParserError& error) {
    reason = why;
    error = http::error::bad_value;
  }

  std::size_t on_body_impl(Text body, ParserError&) override {
    request.body.append(body.data(), body.size());
    return body.size();
  }

  std::size_t on_chunk_body_impl(std::uint64_t, Text body, ParserError&) override {
    request.body.append(body.data(), body.size());
    return body.size();
  }

  void on_response_impl(int, Text, int, ParserError&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, ParserError&) override {}
  void on_chunk_header_impl(std::uint64_t, Text, ParserError&) override {}
  void on_finish_impl(ParserError&) override {}

  bool head_ended_ = false;
  bool has_host_ = false;
  bool has_length_ = false;
};

RequestParser::RequestParser(const HttpLimits& limits)
    : header_bytes_(limits.header_bytes), fields_(std::make_unique<Fields>(limits)) {}

RequestParser::~RequestParser() = default;

std::size_t RequestParser::feed(std::string_view bytes) {
  const bool in_head = stage_ == Stage::kHead;
  ParserError error;
  std::size_t used = 0;
  const std::size_t least = !in_head && fields_->chunked() ? kLeastOfChunks : 1;
  while (bytes.size() - used >= least && !error && !fields_->is_done() && in_head != fields_->is_header_done()) {
    used += fields_->put(boost::asio::buffer(bytes.data() + used, bytes.size() - used), error);
  }
  const std::size_t left = bytes.size() - used;
  const bool needs_more = error == http::error::need_more;
  if (in_head) {
    head_used_ += used;
    if (head_used_ > header_bytes_ || (needs_more && head_used_ + left >= header_bytes_)) {
      fail(431, "the request's head is too large");
      return used;
    }
    if (has_folded_line(bytes.substr(0, used))) error = http::error::bad_value;
  } else if (needs_more && left > header_bytes_) {
    error = http::error::bad_chunk;  // the line of a chunk, or the trailers, do not end
  }
  if (error == http::error::body_limit) {
    fail(413, "the request's body is too large");
  } else if (error && error != http::error::need_more) {
    fail(400, "the request cannot be read: " + (fields_->reason == nullptr ? error.message() : fields_->reason));
  } else if (fields_->is_done()) {
    stage_ = Stage::kDone;
  } else if (fields_->is_header_done()) {
    stage_ = Stage::kBody;
  }
  return used;
}

void RequestParser::fail(unsigned status, std::string problem) {
  stage_ = Stage::kFailed;
  status_ = status;
  problem_ = std::move(problem);
}

bool RequestParser::keep_alive() const {
  return fields_->keep_alive();
}

bool RequestParser::http_1_0() const {
  return fields_->http_1_0;
}

bool RequestParser::expects_continue() const {
  return !fields_->http_1_0 && lower_case(fields_->request.header("expect")) == "100-continue";
}

const HttpRequest& RequestParser::head() const {
  return fields_->request;
}

HttpRequest RequestParser::take() {
  return std::move(fields_->request);
}

}  // namespace ballast::serve
