#include <doctest/doctest.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "http_client.h"
#include "serve/http/http_server.h"
#include "served.h"

namespace ballast::serve {
namespace {

using test::any_port;
using test::HttpClient;
using test::HttpReply;
using test::request_text;
using test::Served;

/// Collects the outcomes that a server reports for its requests.
class Outcomes {
 public:
  HttpOptions options() {
    HttpOptions options = any_port();
    options.on_outcome = [this](const HttpOutcome& outcome) {
      const std::lock_guard lock(mutex_);
      all_.push_back(outcome);
    };
    return options;
  }

  std::vector<HttpOutcome> all() {
    const std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  std::mutex mutex_;
  std::vector<HttpOutcome> all_;
};

std::optional<HttpResponse> refuse_strangers(const HttpRequest& head) {
  if (head.header("authorization") == "friend") return std::nullopt;
  return HttpResponse{.status = 401, .body = "no"};
}

TEST_CASE("a request that its headers disqualify is refused before the body") {
  HttpOptions options = any_port();
  options.check_head = &refuse_strangers;
  Served served(options);
  HttpClient stranger(served.port());
  stranger.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
  const HttpReply refusal = stranger.read_reply();
  CHECK(refusal.status == 401);
  CHECK(refusal.body == "no");
  CHECK(refusal.has("Connection: close"));
  stranger.send(std::string(1000, 'a') + request_text("GET /echo"));  // bytes that are not requests
  CHECK(stranger.read_rest().empty());

  HttpClient careful(served.port());
  careful.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n");
  CHECK(careful.read_reply().status == 401);

  HttpClient known(served.port());
  CHECK(known.request(request_text("POST /echo", "Authorization: friend\r\n", "hello")).body.ends_with(" hello"));
}

TEST_CASE("a server reports the outcome of each request once") {
  Outcomes outcomes;
  {
    Served served(outcomes.options());
    HttpClient client(served.port());
    CHECK(client.request(request_text("POST /echo?x", "", "hello")).status == 200);
    CHECK(client.request(request_text("GET /throw")).status == 500);
    HttpClient wrong(served.port());
    wrong.send("what\r\n\r\n");
    CHECK(wrong.read_reply().status == 400);
    HttpClient streaming(served.port());
    streaming.send(request_text("GET /stream"));
    const auto stream = served.take();
    stream->begin_stream({});
    stream->write("one");
    stream->end();
    streaming.read_reply();
    HttpClient leaving(served.port());
    leaving.send(request_text("GET /held"));
    const auto held = served.take();
    test::Event gone;
    held->on_gone([&] { gone.happen(); });
    leaving.close();
    gone.wait();
  }
  const std::vector<HttpOutcome> all = outcomes.all();
  REQUIRE(all.size() == 5);
  const auto check = [&](std::size_t index, const char* method, const char* path, unsigned status, bool complete) {
    CAPTURE(index);
    CHECK(all[index].method == method);
    CHECK(all[index].path == path);
    CHECK(all[index].client == "127.0.0.1");
    CHECK(all[index].status == status);
    CHECK(all[index].complete == complete);
    CHECK(all[index].seconds >= 0);
  };
  check(0, "POST", "/echo", 200, true);
  check(1, "GET", "/throw", 500, true);
  check(2, "", "", 400, true);
  check(3, "GET", "/stream", 200, true);
  check(4, "GET", "/held", 0, false);
}

}  // namespace
}  // namespace ballast::serve
