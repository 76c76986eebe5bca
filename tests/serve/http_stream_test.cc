#include "serve/http/http_server.h"

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "http_client.h"
#include "served.h"

namespace ballast::serve {
namespace {

using namespace std::chrono_literals;
using test::any_port;
using test::Event;
using test::HttpClient;
using test::HttpReply;
using test::limited;
using test::request_text;
using test::Served;
using test::text_response;

TEST_CASE("each piece of a stream is sent when it is written") {
  Served served;
  HttpClient client(served.port());
  client.send(request_text("GET /held"));
  const auto exchange = served.take();
  exchange->begin_stream(
      {.status = 200, .content_type = "text/event-stream", .body = "", .headers = {{"X-Id", "a\r\nb: c"}}});
  const std::string head = client.read_through("\r\n\r\n");
  CHECK(head.find("Content-Type: text/event-stream\r\n") != std::string::npos);
  CHECK(head.find("X-Id: a  b: c\r\n") != std::string::npos);  // not a separate header
  CHECK(head.find("Transfer-Encoding: chunked\r\n") != std::string::npos);
  for (const std::string piece : {"data: one\n\n", "data: two\n\n"}) {
    exchange->write("");  // an empty piece, which is not the end
    exchange->write(piece);
    CHECK(client.read_chunk() == piece);
  }
  exchange->end();
  CHECK(client.read_chunk().empty());
  CHECK(client.request(request_text("GET /echo")).status == 200);
}

TEST_CASE("a long stream from another thread arrives completely if its client reads") {
  Served served;
  HttpClient client(served.port());
  client.send(request_text("GET /held"));
  const auto exchange = served.take();
  exchange->begin_stream(text_response(""));
  client.read_through("\r\n\r\n");
  std::size_t received = 0;
  for (int i = 0; i < 400; ++i) {  // 800 KB, more than the unsent limit
    exchange->write(std::string(1000, 'a'));
    exchange->write(std::string(1000, 'b'));
    received += client.read_chunk().size();
    received += client.read_chunk().size();
  }
  CHECK(received == 800'000);
  exchange->end();
  CHECK(client.read_chunk().empty());
}

TEST_CASE("a silent stream gets heartbeats") {
  HttpOptions options = any_port();
  options.heartbeat_time = 1ms;
  Served served(options);
  HttpClient client(served.port());
  client.send(request_text("GET /held"));
  const auto exchange = served.take();
  exchange->begin_stream({.content_type = "text/event-stream", .body = {}, .heartbeat = ": alive\n\n"});
  client.read_through("\r\n\r\n");
  CHECK(client.read_chunk() == ": alive\n\n");
  CHECK(client.read_chunk() == ": alive\n\n");
  exchange->end();
}

TEST_CASE("HTTP/1.0 gets no chunks, and the end of the connection ends the stream") {
  Served served;
  HttpClient client(served.port());
  client.send("GET /held HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const auto exchange = served.take();
  exchange->begin_stream(text_response(""));
  exchange->write("one ");
  exchange->write("two");
  exchange->end();
  const HttpReply reply = client.read_reply();
  CHECK(reply.has("Connection: close"));
  CHECK(reply.body == "one two");
  CHECK(reply.complete);
}

TEST_CASE("a disconnection of a waiting client is reported") {
  const std::function<void(HttpClient&)> ways_to_leave[] = {[](HttpClient& client) { client.close(); },
                                                            [](HttpClient& client) { client.end_sending(); }};
  for (const auto& leave : ways_to_leave) {
    for (const bool streaming : {false, true}) {
      Served served;
      HttpClient client(served.port());
      client.send(request_text("GET /held"));
      const auto exchange = served.take();
      Event gone;
      exchange->on_gone([&] { gone.happen(); });
      if (streaming) {
        exchange->begin_stream(text_response(""));
        exchange->write("piece");
        client.read_through("piece\r\n");
      }
      leave(client);
      gone.wait();
      Event at_once;
      exchange->on_gone([&] { at_once.happen(); });
      CHECK(at_once.happened());
      exchange->respond(text_response("dropped"));
      exchange->write("dropped");
      exchange->end();
      CHECK(client.read_rest().empty());
      CHECK(served.answers());
    }
  }
}

TEST_CASE("a disconnection of a client with unanswered requests is reported") {
  Served served;
  HttpClient client(served.port());
  client.send(request_text("GET /held") + request_text("GET /held"));
  const auto exchange = served.take();
  Event gone;
  exchange->on_gone([&] { gone.happen(); });
  client.close();
  gone.wait();
}

TEST_CASE("a client's disconnection after its answer is not reported") {
  Event gone;
  {
    Served served;
    HttpClient client(served.port());
    client.send(request_text("GET /held"));
    const auto exchange = served.take();
    exchange->on_gone([&] { gone.happen(); });
    exchange->respond(text_response("answer"));
    CHECK(client.read_reply().body == "answer");
  }
  CHECK(!gone.happened());
}

TEST_CASE("a failing callback does not affect other connections") {
  Served served;
  HttpClient client(served.port());
  client.send(request_text("GET /held"));
  const auto exchange = served.take();
  Event called;
  exchange->on_gone([&] {
    called.happen();
    throw std::runtime_error("in a callback");
  });
  client.close();
  called.wait();
  CHECK(served.answers());
}

TEST_CASE("a client that does not read its stream counts as disconnected, and its connection is reset") {
  Served served(limited({.unsent_bytes = 64 << 10, .behind_time = 100ms}));
  HttpClient client(served.port(), 4096);
  client.send(request_text("GET /held"));
  const auto exchange = served.take();
  Event gone;
  exchange->on_gone([&] { gone.happen(); });
  exchange->begin_stream(text_response(""));
  while (!gone.happened()) exchange->write(std::string(1000, 'a'));
  client.read_rest();
  CHECK(client.was_reset());
  CHECK(served.answers());
}

TEST_CASE("a piece of a stream may be larger than the unsent limit if the client reads it") {
  Served served(limited({.unsent_bytes = 64 << 10}));
  HttpClient client(served.port());
  client.send(request_text("GET /held"));
  const auto exchange = served.take();
  exchange->begin_stream(text_response(""));
  for (int i = 0; i < 3; ++i) exchange->write(std::string(500'000, 'a'));
  exchange->end();
  CHECK(client.read_reply().body.size() == 1'500'000);
}

TEST_CASE("a client that does not read its answer for too long counts as disconnected") {
  Served served(limited({.unsent_bytes = 1 << 30, .idle_time = 100ms}));
  HttpClient client(served.port(), 4096);
  client.send(request_text("GET /held"));
  const auto exchange = served.take();
  Event gone;
  exchange->on_gone([&] { gone.happen(); });
  exchange->begin_stream(text_response(""));
  exchange->write(std::string(32 << 20, 'a'));
  gone.wait();
}

TEST_CASE("an answer may be larger than a stream's unsent limit") {
  Served served(limited({.unsent_bytes = 1000, .behind_time = 100ms}));
  HttpClient client(served.port());
  client.send(request_text("GET /held"));
  served.take()->respond(text_response(std::string(300'000, 'a')));
  CHECK(client.read_reply().body.size() == 300'000);
}

TEST_CASE("an exchange that is dropped closes the connection") {
  Served served;
  HttpClient unanswered(served.port());
  CHECK(unanswered.request(request_text("GET /drop")).status == 0);
  HttpClient halfway(served.port());
  halfway.send(request_text("GET /held"));
  {
    const auto exchange = served.take();
    exchange->begin_stream(text_response(""));
    exchange->write("piece");
    halfway.read_through("piece\r\n");
  }
  CHECK(halfway.read_rest().empty());  // without the last chunk
  HttpClient old(served.port());
  old.send("GET /held HTTP/1.0\r\n\r\n");
  {
    const auto exchange = served.take();
    exchange->begin_stream(text_response(""));
    exchange->write("piece");
    old.read_through("piece");
  }
  old.read_rest();
  CHECK(old.was_reset());  // a normal close would end the stream
}

TEST_CASE("threads may answer while the server ends") {
  for (int round = 0; round < 20; ++round) {
    std::vector<std::thread> threads;
    std::vector<std::unique_ptr<HttpClient>> clients;
    auto served = std::make_unique<Served>();
    Event begun;
    for (int i = 0; i < 4; ++i) {
      clients.push_back(std::make_unique<HttpClient>(served->port()));
      clients.back()->send(request_text("GET /held"));
      threads.emplace_back([&begun, exchange = served->take()] {
        exchange->begin_stream({});
        for (int piece = 0; piece < 200; ++piece) {
          exchange->write("piece");
          if (piece == 20) begun.happen();
        }
        exchange->end();
      });
    }
    begun.wait();
    served.reset();
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace ballast::serve
