#include "serve/http/http_server.h"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "error_message.h"
#include "http_client.h"
#include "served.h"

namespace ballast::serve {
namespace {

using test::any_port;
using test::Contains;
using test::error_message;
using test::Event;
using test::HttpClient;
using test::HttpReply;
using test::reply_to;
using test::request_text;
using test::Served;
using test::text_response;

TEST_CASE("a request is answered, and the connection stays open") {
  Served served;
  HttpClient client(served.port());
  for (int round = 0; round < 3; ++round) {
    const HttpReply reply = client.request(request_text("POST /echo?of=what", "", "body" + std::to_string(round)));
    CHECK(reply.status == 200);
    CHECK(reply.head.starts_with("HTTP/1.1 200 OK\r\n"));
    CHECK(reply.has("Content-Type: text/plain"));
    CHECK(reply.head.find("Connection:") == std::string::npos);
    CHECK(reply.body == "POST /echo 127.0.0.1 body" + std::to_string(round));
  }
}

TEST_CASE("a request has its headers in lower case, and the first of a name is found") {
  Served served;
  HttpClient client(served.port());
  client.send(request_text("GET /held", "X-One:  a b \r\nx-one: c\r\nAuthorization: Bearer Key\r\n"));
  const auto exchange = served.take();
  CHECK(exchange->request().header("x-one") == "a b");
  CHECK(exchange->request().header("authorization") == "Bearer Key");
  CHECK(exchange->request().header("none").empty());
  CHECK(exchange->request().headers.size() == 4);
  exchange->respond(text_response("ok"));
  CHECK(client.read_reply().body == "ok");
}

TEST_CASE("unknown methods are passed to the handler") {
  CHECK(reply_to(request_text("BREW /echo")).body == "BREW /echo 127.0.0.1 ");
}

TEST_CASE("the path of a target is found in all its forms") {
  Served served;
  HttpClient client(served.port());
  CHECK(client.request(request_text("GET http://host:80/echo?a=b")).body == "GET /echo 127.0.0.1 ");
  const std::pair<std::string, std::string> paths[] = {{"http://host", "/"},     {"http://host?a=/b", "/"},
                                                       {"/a?b=http://c/", "/a"}, {"*", "*"},
                                                       {"host:443", "host:443"}, {"/a%20b//", "/a%20b//"}};
  for (const auto& [target, path] : paths) {
    client.send(request_text("GET " + target));
    const auto exchange = served.take();
    CHECK(exchange->request().path == path);
    exchange->respond({});
    client.read_reply();
  }
}

TEST_CASE("pipelined requests are answered in order") {
  Served served;
  HttpClient client(served.port());
  client.send(request_text("GET /held1") + request_text("GET /echo") + request_text("GET /held2") + "\r\n" +
              request_text("POST /echo", "", "last"));
  const auto first = served.take();
  CHECK(first->request().path == "/held1");
  first->respond(text_response("one"));
  CHECK(client.read_reply().body == "one");
  CHECK(client.read_reply().body == "GET /echo 127.0.0.1 ");
  served.take()->respond(text_response("two"));
  CHECK(client.read_reply().body == "two");
  CHECK(client.read_reply().body == "POST /echo 127.0.0.1 last");
}

TEST_CASE("pipelined requests beyond the limit wait in the socket, and none is lost") {
  Served served;
  HttpClient client(served.port());
  constexpr int kRequests = 2000;  // 70 KB
  std::thread sender([&] {
    client.send(request_text("GET /held"));
    for (int i = 0; i < kRequests; ++i) client.send(request_text("GET /echo"));
  });
  served.take()->respond(text_response("first"));
  CHECK(client.read_reply().body == "first");
  int answered = 0;
  for (int i = 0; i < kRequests; ++i) answered += client.read_reply().status == 200;
  CHECK(answered == kRequests);
  sender.join();
}

TEST_CASE("a body in chunks is assembled, for any division of its bytes") {
  const std::string request =
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\nhello\r\n1;ext=\"a\"\r\n \r\n0005\r\nworld\r\n0\r\nTrailer: x\r\n\r\n";
  Served served;
  HttpClient client(served.port());
  CHECK(client.request(request + request).body == "POST /echo 127.0.0.1 hello world");
  CHECK(client.read_reply().body == "POST /echo 127.0.0.1 hello world");
  for (const char byte : request) client.send({&byte, 1});
  CHECK(client.read_reply().body == "POST /echo 127.0.0.1 hello world");
}

TEST_CASE("HEAD is answered without a body, and the connection stays open") {
  Served served;
  HttpClient client(served.port());
  client.send(request_text("HEAD /echo"));
  const HttpReply reply = client.read_reply(/*head_only=*/true);
  CHECK(reply.status == 200);
  CHECK(reply.has("Content-Length: 21"));
  client.send(request_text("HEAD /held"));
  const auto exchange = served.take();
  exchange->begin_stream(text_response(""));
  exchange->write("a piece");
  exchange->end();
  CHECK(client.read_reply(/*head_only=*/true).has("Transfer-Encoding: chunked"));
  CHECK(client.request(request_text("GET /echo")).body == "GET /echo 127.0.0.1 ");
}

TEST_CASE("a client that expects 100-continue gets it") {
  Served served;
  HttpClient client(served.port());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-Continue\r\n\r\n");
  CHECK(client.read_reply().status == 100);
  CHECK(client.request("body").body == "POST /echo 127.0.0.1 body");
}

TEST_CASE("HTTP/1.0 keeps the connection open only on request") {
  Served served;
  HttpClient asking(served.port());
  for (int round = 0; round < 2; ++round) {
    CHECK(asking.request("GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").has("Connection: keep-alive"));
  }
  HttpClient silent(served.port());
  CHECK(silent.request("GET /echo HTTP/1.0\r\n\r\n").has("Connection: close"));
  CHECK(silent.read_rest().empty());
}

TEST_CASE("a client that asks to close is closed after its answer") {
  Served served;
  HttpClient client(served.port());
  const HttpReply reply = client.request(request_text("GET /echo", "Connection: close\r\n"));
  CHECK(reply.status == 200);
  CHECK(reply.has("Connection: close"));
  CHECK(client.read_rest().empty());
  CHECK(!client.was_reset());
}

TEST_CASE("an exception of a handler gives a response with a general message") {
  Served served;
  HttpClient client(served.port());
  const HttpReply reply = client.request(request_text("GET /throw"));
  CHECK(reply.status == 500);
  CHECK(reply.body.find("\"server_error\"") != std::string::npos);
  CHECK(reply.body.find("eyes") == std::string::npos);
  CHECK(client.request(request_text("GET /echo")).status == 200);
}

TEST_CASE("an exchange may outlive its server") {
  std::shared_ptr<HttpExchange> exchange;
  Event gone;
  {
    Served served;
    HttpClient client(served.port());
    client.send(request_text("GET /held"));
    exchange = served.take();
    exchange->on_gone([&] { gone.happen(); });
  }
  CHECK(gone.happened());
  exchange->begin_stream({});
  exchange->write("piece");
  exchange->end();
  CHECK(exchange->request().path == "/held");
}

TEST_CASE("drain() closes idle connections and lets answers end") {
  Served served;
  HttpClient idle(served.port());
  CHECK(idle.request(request_text("GET /echo")).status == 200);
  HttpClient waiting(served.port());
  waiting.send(request_text("GET /held"));
  HttpClient streaming(served.port());
  const auto exchange = served.take();
  streaming.send(request_text("GET /held"));
  const auto stream = served.take();
  stream->begin_stream(text_response(""));
  CHECK(streaming.read_through("\r\n\r\n").find("Connection") == std::string::npos);
  served.server().drain();
  served.server().drain();
  CHECK(idle.read_rest().empty());
  CHECK(!idle.was_reset());
  CHECK_THROWS(HttpClient(served.port()));
  exchange->respond(text_response("answer"));
  const HttpReply reply = waiting.read_reply();
  CHECK(reply.body == "answer");
  CHECK(reply.has("Connection: close"));
  CHECK(waiting.read_rest().empty());
  stream->write("piece");
  stream->end();
  CHECK(streaming.read_chunk() == "piece");
  CHECK(streaming.read_chunk().empty());
  CHECK(streaming.read_rest().empty());
}

TEST_CASE("run() returns once a drained server has answered all") {
  Event handled;
  std::shared_ptr<HttpExchange> held;
  HttpServer server(any_port(), [&](std::shared_ptr<HttpExchange> exchange) {
    held = std::move(exchange);
    handled.happen();
  });
  std::thread thread([&] { server.run({}); });
  HttpClient client(server.port());
  client.send(request_text("GET /"));
  handled.wait();
  server.drain();
  held->respond(text_response("answer"));
  CHECK(client.read_reply().body == "answer");
  client.close();
  thread.join();
}

TEST_CASE("drain() and stop() take effect before run(), and are harmless after it") {
  const std::function<void(HttpServer&)> ways_to_end[] = {[](HttpServer& server) { server.drain(); },
                                                          [](HttpServer& server) { server.stop(); }};
  for (const auto& end : ways_to_end) {
    HttpServer server(any_port(), [](const std::shared_ptr<HttpExchange>&) {});
    end(server);
    server.run({});
    end(server);
    server.run({});
    end(server);
  }
  const HttpServer never_run(any_port(), [](const std::shared_ptr<HttpExchange>&) {});
}

TEST_CASE("stop() closes open connections and notifies waiting requests") {
  Served served;
  HttpClient idle(served.port());
  CHECK(idle.request(request_text("GET /echo")).status == 200);
  HttpClient waiting(served.port());
  waiting.send(request_text("GET /held"));
  const auto exchange = served.take();
  Event gone;
  exchange->on_gone([&] { gone.happen(); });
  served.server().stop();
  gone.wait();
  CHECK(waiting.read_rest().empty());
  CHECK(idle.read_rest().empty());
}

TEST_CASE("an error has the address at which a server cannot listen, and the reason") {
  const Served served;
  HttpOptions options;
  options.port = served.port();
  const auto start = [&] { const HttpServer server(options, [](const std::shared_ptr<HttpExchange>&) {}); };
  CHECK(error_message(start) ==
        "127.0.0.1:" + std::to_string(served.port()) + ": cannot listen: Address already in use");
  options.host = "no.address";
  CHECK(error_message(start) == Contains("no.address:" + std::to_string(served.port()) + ": is not an address"));
}

TEST_CASE("a server listens at localhost, and at an IPv6 address if the machine has one") {
  HttpOptions options = any_port();
  options.host = "localhost";
  CHECK(Served(options).answers());
  options.host = "::";
  try {
    Served served(options);
    HttpClient client(served.port());
    CHECK(client.request(request_text("GET /echo")).body == "GET /echo 127.0.0.1 ");
  } catch (const Error&) {
    MESSAGE("no IPv6 here");
  }
}

}  // namespace
}  // namespace ballast::serve
