// What the server and its clients say to each other, whatever library carries it.
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
  std::string method;  ///< "GET"
  std::string path;    ///< of the target, without what follows '?', as it was sent
  std::string client;  ///< the address that it came from, "127.0.0.1"
  HttpHeaders headers;
  std::string body;

  /// The first header of this name (in lower case); empty when there is none.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  unsigned status = 200;
  std::string content_type = "application/json";
  std::string body;
  HttpHeaders headers{};  ///< besides type and length
};

/// ASCII letters made small: names of headers and hosts have no case.
std::string lower_case(std::string_view text);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_HTTP_HTTP_MESSAGE_H_
