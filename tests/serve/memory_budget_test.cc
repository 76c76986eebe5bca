#include "serve/http/memory_budget.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "http_client.h"
#include "serve/service/request_memory.h"
#include "served.h"

namespace ballast::serve {
namespace {

using test::any_port;
using test::HttpClient;
using test::request_text;
using test::Served;

constexpr std::size_t kFree = MemoryBudget::kFree;

TEST_CASE("requests share a budget and release their part at the end") {
  const auto budget = std::make_shared<MemoryBudget>(1000);
  MemoryShare first(budget);
  CHECK(first.resize(kFree));
  CHECK(budget->used() == 0);
  CHECK(first.resize(kFree + 600));
  {
    MemoryShare second(budget);
    CHECK(!second.resize(kFree + 401));
    CHECK(second.resize(kFree + 400));
    MemoryShare moved(std::move(second));
    CHECK(budget->used() == 1000);
    CHECK(!first.resize(kFree + 601));
    CHECK(first.resize(kFree + 500));
    CHECK(budget->used() == 900);
  }
  CHECK(budget->used() == 500);
  CHECK(budget->refused() == 2);
  CHECK(MemoryShare().resize(static_cast<std::size_t>(-1)));
}

TEST_CASE("bodies count while they are received: one without room is refused, small ones and later ones are not") {
  HttpOptions options = any_port();
  options.memory = std::make_shared<MemoryBudget>(1'000'000);
  Served served(options);
  std::vector<std::unique_ptr<HttpClient>> waiting;
  for (int i = 0; i < 2; ++i) {
    waiting.push_back(std::make_unique<HttpClient>(served.port()));
    waiting.back()->send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 520000\r\n\r\n" +
                         std::string(510'000, 'a'));
  }
  while (options.memory->used() < 2 * (500'000 - kFree)) served.wait_for_ticks(1);
  HttpClient large(served.port());
  large.send(request_text("POST /echo", "", std::string(700'000, 'a')));
  const test::HttpReply reply = large.read_reply();
  CHECK(reply.status == 429);
  CHECK(reply.has("Retry-After: 1"));
  CHECK(reply.body.find("memory for requests") != std::string::npos);
  CHECK(options.memory->refused() > 0);
  HttpClient small(served.port());
  CHECK(small.request(request_text("POST /echo", "", std::string(50'000, 'a'))).status == 200);
  waiting.clear();
  large.close();
  while (options.memory->used() > 0) served.wait_for_ticks(1);
  HttpClient later(served.port());
  CHECK(later.request(request_text("POST /echo", "", std::string(700'000, 'a'))).status == 200);
}

TEST_CASE("the reserved memory of a request is released after its answer was sent") {
  HttpOptions options = any_port();
  options.memory = std::make_shared<MemoryBudget>(1'000'000);
  Served served(options);
  HttpClient client(served.port());
  client.send(request_text("GET /held"));
  auto exchange = served.take();
  CHECK(exchange->hold(kFree + 900'000));
  CHECK(!exchange->hold(kFree + 1'100'000));
  CHECK(options.memory->used() == 900'000);
  exchange->respond(test::text_response("done"));
  exchange.reset();
  CHECK(client.read_reply().body == "done");
  while (options.memory->used() > 0) served.wait_for_ticks(1);
}

GenerationRequest request_of(std::size_t prompt, std::size_t choices, std::size_t most_tokens) {
  GenerationRequest request;
  request.prompt.assign(prompt, 1);
  request.choices = choices;
  request.options.max_tokens = most_tokens;
  return request;
}

TEST_CASE("estimates grow with the requested work") {
  const std::vector<GenerationRequest> scored = {request_of(8000, 64, 0)};
  CHECK(generation_bytes(scored, {.echo = true, .logprobs = 20}) > std::size_t{1} << 30);
  CHECK(generation_bytes(scored, {.echo = true}) < std::size_t{32} << 20);
  const std::vector<GenerationRequest> chat = {request_of(500, 1, 7500)};
  CHECK(generation_bytes(chat, {}) < std::size_t{1} << 20);
  CHECK(generation_bytes(chat, {.logprobs = 5}) > std::size_t{4} << 20);
  CHECK(generation_bytes(chat, {.stream = true, .logprobs = 5}) < std::size_t{1} << 20);
  std::vector<GenerationRequest> stops(2048, request_of(1, 1, 1));
  for (GenerationRequest& request : stops) request.options.stop.assign(16, std::string(1024, 'a'));
  CHECK(generation_bytes(stops, {}) > std::size_t{90} << 20);
  CHECK(embedding_bytes(std::vector<GenerationRequest>(2048, request_of(10, 1, 0)), 4096, false) > std::size_t{256}
                                                                                                       << 20);
}

TEST_CASE("a body's estimate counts its JSON, and nothing within strings") {
  CHECK(body_bytes(R"({"prompt": "a,b:[c]{\"d,,,,"})", 1) ==
        body_bytes(R"({"prompt": "abcdefghijklmnopq"})", 1) + 0 +
            std::string(R"({"prompt": "a,b:[c]{\"d,,,,"})").size() -
            std::string(R"({"prompt": "abcdefghijklmnopq"})").size());
  std::string ids = "[1";
  for (int i = 0; i < 100'000; ++i) ids += ",1";
  CHECK(body_bytes(ids + "]", 1) > 16 * 100'000);
  std::string lists = "[[]";
  for (int i = 0; i < 100'000; ++i) lists += ",[]";
  CHECK(body_bytes(lists + "]", 1) > 64 * 100'000);
}

}  // namespace
}  // namespace ballast::serve
