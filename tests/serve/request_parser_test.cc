#include "serve/http/request_parser.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>

#include "mutated_text.h"

namespace ballast::serve {
namespace {

using Stage = RequestParser::Stage;

/// Returns the outcome of a request whose bytes arrive in steps of `step` bytes.
std::string outcome(std::string_view bytes, std::size_t step) {
  HttpLimits limits;
  limits.header_bytes = 1000;
  limits.body_bytes = 1000;
  RequestParser parser(limits);
  std::size_t used = 0;
  for (std::size_t arrived = 0; arrived < bytes.size();) {
    arrived = std::min(arrived + step, bytes.size());
    for (std::size_t more = 1; more > 0 && (parser.stage() == Stage::kHead || parser.stage() == Stage::kBody);) {
      const Stage before = parser.stage();
      more = parser.feed(bytes.substr(used, arrived - used));
      used += more;
      if (parser.stage() != before) more = 1;
    }
  }
  if (parser.stage() == Stage::kFailed) return std::to_string(parser.status());
  if (parser.stage() != Stage::kDone) return "wants more";
  const bool keep_alive = parser.keep_alive();
  const HttpRequest request = parser.take();
  std::string text = request.method + " " + request.path + "\n";
  for (const auto& [name, value] : request.headers) text.append(name).append(":").append(value).append("\n");
  return text + request.body + (keep_alive ? "\nkeeps " : "\ncloses ") + std::to_string(used);
}

TEST_CASE("a last chunk that arrives byte by byte is accepted (it failed an assertion in Beast)") {
  constexpr std::string_view kHead = "PUT /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string_view body : {"0\r\n\r\n", "1\r\na\r\n0\r\n\r\n"}) {
    const std::string request = std::string(kHead).append(body);
    CHECK(outcome(request, 1).ends_with("keeps " + std::to_string(request.size())));
  }
}

TEST_CASE("a request is read equally for any division of its bytes") {
  const std::string requests[] = {
      "POST /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nX: y z\r\nConnection: close\r\n\r\nhello",
      "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\nhello\r\na;b=c\r\n0123456789\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.1\r\n",
      "GET http://x/a HTTP/1.0\r\nConnection: keep-alive, b\r\n\r\nGET",
      "PUT /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
  };
  CHECK(outcome(requests[0], 1) == "POST /a\nhost:x\ncontent-length:5\nx:y z\nconnection:close\nhello\ncloses " +
                                       std::to_string(requests[0].size()));
  std::mt19937 random(11);
  for (int round = 0; round < 4000; ++round) {
    // A head is refused at its end at the latest, so this one has an end.
    const std::string request = test::mutated(requests[round % 4], random) + "\r\n\r\n";
    CAPTURE(request);
    const std::string whole = outcome(request, request.size());
    CHECK(outcome(request, 1) == whole);
    CHECK(outcome(request, 7) == whole);
  }
}

}  // namespace
}  // namespace ballast::serve
