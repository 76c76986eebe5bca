// HTTP requests and responses, independent of the library that transfers them.
#ifndef BALLAST_SERVE_HTTP_HTTP_MESSAGE_H_
#define BALLAST_SERVE_HTTP_HTTP_MESSAGE_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ballast::serve {

/// Names in lower case, in the order of arrival.
using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;   ///< "GET"
  std::string path;     ///< of the target, without the query after '?', as sent
  std::string query{};  ///< what follows the '?', as sent
  std::string client;   ///< the client's address, "127.0.0.1"
  HttpHeaders headers;
  std::string body;

  /// Returns the first header with this name (in lower case); empty if there is none.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  unsigned status = 200;
  std::string content_type = "application/json";
  std::string body;
  HttpHeaders headers{};    ///< without type and length
  std::string heartbeat{};  ///< is sent while a stream has been silent for some time; empty: nothing is
};

/// Converts ASCII letters to lower case: names of headers and hosts are not case-sensitive.
std::string lower_case(std::string_view text);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_HTTP_HTTP_MESSAGE_H_
