#include "serve/http/http_server.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>

#include "http_client.h"
#include "served.h"

namespace ballast::serve {
namespace {

using namespace std::chrono_literals;
using test::HttpClient;
using test::HttpReply;
using test::limited;
using test::reply_to;
using test::request_text;
using test::Served;
using test::text_response;

TEST_CASE("a client that announces too large a body with Expect is refused immediately") {
  const HttpReply reply =
      reply_to(limited({.body_bytes = 100}),
               "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\nExpect: 100-continue\r\n\r\n");
  CHECK(reply.status == 413);
}

TEST_CASE("headers may have as many bytes as the limit, and no more") {
  const HttpOptions options = limited({.header_bytes = 500});
  const std::size_t rest = request_text("GET /echo", "X: \r\n").size();
  const auto head_of = [&](std::size_t size) {
    return request_text("GET /echo", "X: " + std::string(size - rest, 'a') + "\r\n");
  };
  CHECK(reply_to(options, head_of(500)).status == 200);
  CHECK(reply_to(options, head_of(501)).status == 431);
  CHECK(reply_to(options, "GET /" + std::string(5000, 'a')).status == 431);
  std::string many = request_text("GET /echo", "");
  many.resize(many.size() - 2);
  for (int i = 0; i < 100; ++i) many += "X: y\r\n";
  CHECK(reply_to(options, many).status == 431);  // headers without an end
}

TEST_CASE("a body may have as many bytes as the limit, and no more") {
  const HttpOptions options = limited({.body_bytes = 1000});
  const auto body_of = [](std::size_t size) { return request_text("POST /echo", "", std::string(size, 'a')); };
  CHECK(reply_to(options, body_of(1000)).status == 200);
  const HttpReply refused = reply_to(options, body_of(1001));
  CHECK(refused.status == 413);
  CHECK(refused.has("Connection: close"));
  CHECK(refused.body == R"({"error":{"message":"the request's body is too large","type":"invalid_request_error",)"
                        R"("param":null,"code":null}})");
  const std::string chunked = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string chunk = "1f4\r\n" + std::string(500, 'a') + "\r\n";
  CHECK(reply_to(options, chunked + chunk + chunk + "0\r\n\r\n").status == 200);
  CHECK(reply_to(options, chunked + chunk + chunk + "1\r\n").status == 413);
  CHECK(reply_to(options, chunked + "ffffffffffffffff\r\n").status == 413);
  CHECK(reply_to(options, chunked + "10000000000000000\r\n").status == 400);
  CHECK(reply_to(options, chunked + "1;" + std::string(100'000, 'a')).status == 400);
  CHECK(reply_to(options, chunked + "0\r\nX: " + std::string(100'000, 'a')).status == 400);
}

TEST_CASE("a client receives the answer to a refused upload although it continues to send") {
  Served served(limited({.body_bytes = 1000}));
  HttpClient client(served.port());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n");
  client.send(std::string(4'000'000, 'a'));
  CHECK(client.read_reply().status == 413);
}

TEST_CASE("a response reports headers that time out") {
  const HttpReply reply = reply_to(limited({.header_time = 50ms}), "GET /echo HTTP/1.1\r\n");
  CHECK(reply.status == 408);
  CHECK(reply.has("Connection: close"));
}

TEST_CASE("a response reports a body that is too slow") {
  const HttpOptions options = limited({.least_body_rate = 1'000'000'000, .header_time = 50ms});
  CHECK(reply_to(options, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc").status == 408);
  CHECK(reply_to(options, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n").status == 408);
}

TEST_CASE("a connection without requests is closed without an answer") {
  Served served(limited({.idle_time = 50ms}));
  HttpClient fresh(served.port());
  CHECK(fresh.read_rest().empty());
  std::unique_ptr<HttpClient> used;
  do {  // the request itself may be too slow
    used = std::make_unique<HttpClient>(served.port());
  } while (used->request(request_text("GET /echo")).status != 200);
  CHECK(used->read_rest().empty());
  CHECK(!used->was_reset());
}

TEST_CASE("an answer may take longer than a connection may be idle") {
  Served served(limited({.idle_time = 50ms}));
  std::unique_ptr<HttpClient> client;
  do {  // the request itself may be too slow
    client = std::make_unique<HttpClient>(served.port());
    client->send("POST /held HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
  } while (client->read_reply().status != 100);
  client->send("a");
  const auto exchange = served.take();
  served.wait_for_ticks(3);
  exchange->begin_stream(text_response(""));
  served.wait_for_ticks(3);
  exchange->write("late");
  exchange->end();
  CHECK(client->read_reply().body == "late");
}

TEST_CASE("connections beyond the limit are refused with a response until others end") {
  for (const HttpLimits& limits : {HttpLimits{.connections = 2}, HttpLimits{.connections_of_address = 2}}) {
    Served served(limited(limits));
    HttpClient first(served.port());
    HttpClient second(served.port());
    CHECK(first.request(request_text("GET /echo")).status == 200);
    CHECK(second.request(request_text("GET /echo")).status == 200);
    HttpClient third(served.port());
    const HttpReply reply = third.read_reply();
    CHECK(reply.status == 503);
    CHECK(reply.body.find("overloaded_error") != std::string::npos);
    CHECK(third.read_rest().empty());
    third.close();
    CHECK(first.request(request_text("GET /echo", "Connection: close\r\n")).status == 200);
    first.read_rest();
    first.close();
    while (!served.answers()) {  // the server may not have noticed yet that the first is disconnected
    }
  }
}

TEST_CASE("a server that ran out of descriptors continues when some are free") {
  Served served;
  HttpClient client;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);  // the lowest free one
  REQUIRE(next >= 0);
  ::close(next);
  const rlimit none = {.rlim_cur = static_cast<rlim_t>(next), .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  client.connect(served.port());
  client.send(request_text("GET /echo"));
  served.wait_for_ticks(5);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(client.read_reply().status == 200);
}

}  // namespace
}  // namespace ballast::serve
