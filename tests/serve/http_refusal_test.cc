#include "serve/http/http_server.h"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <string_view>

#include "http_client.h"
#include "mutated_text.h"
#include "served.h"

namespace ballast::serve {
namespace {

using test::HttpClient;
using test::HttpReply;
using test::limited;
using test::mutated;
using test::reply_to;
using test::request_text;
using test::Served;

TEST_CASE("requests whose end is ambiguous are refused") {
  const std::string refused[] = {
      "Content-Length: 5\r\nContent-Length: 5\r\n",
      "Content-Length: 5\r\nContent-Length: 6\r\n",
      "Content-Length: 5, 5\r\n",
      "Content-Length: +5\r\n",
      "Content-Length: -1\r\n",
      "Content-Length: 0x5\r\n",
      "Content-Length: \r\n",
      "Content-Length: 18446744073709551616\r\n",
      "Content-Length : 5\r\n",
      "Content-Length:\r\n 5\r\n",
      "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
      "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
      "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
      "Transfer-Encoding: gzip, chunked\r\n",
      "Transfer-Encoding: chunked, identity\r\n",
      "Transfer-Encoding: identity\r\nContent-Length: 5\r\n",
      "Transfer-Encoding: identity\r\n",
      "Transfer-Encoding: xchunked\r\n",
      "Transfer-Encoding:\r\n chunked\r\n",
      "Transfer-Encoding: \vchunked\r\n",
      "Transfer-Encoding: chunked\nX: y\r\n",
      "Host: y\r\n",
      "X: a\rb\r\n",
      " X: y\r\n",
      "X: a\r\n\tb\r\n",
      ": y\r\n",
      "X\r\n",
      std::string("X: \0\r\n", 6),
  };
  for (const std::string& headers : refused) {
    CAPTURE(headers);
    CHECK(reply_to(request_text("POST /echo", headers) + "0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n").status == 400);
  }
  CHECK(reply_to("POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").status == 400);
  CHECK(reply_to("GET /echo HTTP/1.1\r\n\r\n").body.find("the Host header is missing") != std::string::npos);
}

TEST_CASE("ambiguous chunks are refused") {
  const std::string head = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string body : {"5\nhello\r\n0\r\n\r\n", "5\r\nhelloX\r\n0\r\n\r\n", "-1\r\n", "0x5\r\nhello\r\n\r\n",
                                 "\r\n", "5 \r\nhello\r\n0\r\n\r\n", "5;\r\nhello\r\n0\r\n\r\n", "g\r\n",
                                 "0\r\nContent-Length: 5\r\n\r\n", "0\r\nX\r\n\r\n"}) {
    CAPTURE(body);
    CHECK(reply_to(head + body + "\r\n\r\n").status == 400);
  }
}

TEST_CASE("bytes that are not a request are refused") {
  for (const std::string bytes :
       {"\x16\x03\x01\x02\x01\xfc", "GET\r\n\r\n", "GET /\r\n\r\n", "GET / HTTP/2.0\r\n\r\n", "GET / HTTP/1.1 \r\n\r\n",
        "GET  / HTTP/1.1\r\n\r\n", "G\tT / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\nHost: x\n\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", " GET / HTTP/1.1\r\n\r\n"}) {
    CAPTURE(bytes);
    const HttpReply reply = reply_to(bytes);
    CHECK(reply.status == 400);
    CHECK(reply.body.find("\"invalid_request_error\"") != std::string::npos);
  }
}

TEST_CASE("the server survives requests of all kinds of damage") {
  Served served(limited({.header_bytes = 1000, .body_bytes = 1000}));
  const std::string requests[] = {
      request_text("POST /echo?a=b", "Accept: */*\r\nExpect: 100-continue\r\n", "hello"),
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive, x\r\n\r\n"
      "5\r\nhello\r\na;b=\"c\"\r\n0123456789\r\n0\r\nX: y\r\n\r\n",
      "GET http://x/echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /echo HTTP/1.1\r\nHost: x\r\n\r\n",
  };
  std::mt19937 random(7);
  for (int round = 0; round < 600; ++round) {
    const std::string request = mutated(requests[round % 3], random);
    CAPTURE(request);
    HttpClient client(served.port());
    const std::size_t cut = std::uniform_int_distribution<std::size_t>(0, request.size())(random);
    client.send(std::string_view(request).substr(0, cut));
    client.send(std::string_view(request).substr(cut));
    client.end_sending();
    client.read_rest();
    if (round % 10 == 0) CHECK(served.answers());
  }
  CHECK(served.answers());
}

}  // namespace
}  // namespace ballast::serve
