// Any allocation of this test program can be made to fail.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>

#include "ballast/serve.h"
#include "http_client.h"
#include "replaced_new.h"
#include "served.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "tiny_tokenizer.h"

#if defined(__SANITIZE_ADDRESS__)
#define BALLAST_HAS_LEAK_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BALLAST_HAS_LEAK_SANITIZER
#endif
#endif
#ifdef BALLAST_HAS_LEAK_SANITIZER
#include <sanitizer/lsan_interface.h>
#endif

namespace {

std::atomic<std::int64_t> allocations_left{0};  // until one fails; 0 or less: none fails
thread_local bool fails_never = false;
std::atomic<bool> may_leak = false;  // the JSON library leaks values if an allocation of a list of them fails

/// The JSON library's destructors allocate a list of the values within a value, of 16 bytes each, and end the program
/// where that fails. Here no JSON has more than 32 values.
bool may_be_of_destructor(std::size_t size) {
  return size % 16 == 0 && size <= 512;
}

bool fails(std::size_t size) {
  if (fails_never || may_be_of_destructor(size) || allocations_left.load(std::memory_order_relaxed) <= 0) return false;
  return allocations_left.fetch_sub(1) == 1;
}

}  // namespace

bool ballast::test::allocation_fails(std::size_t size) {
  return fails(size);
}

void ballast::test::on_allocated([[maybe_unused]] void* memory) {
#ifdef BALLAST_HAS_LEAK_SANITIZER
  if (may_leak.load(std::memory_order_relaxed)) __lsan_ignore_object(memory);
#endif
}

namespace ballast::serve {
namespace {

using test::HttpClient;
using test::HttpReply;

/// The whole server, on threads of this process.
class WholeServer {
 public:
  explicit WholeServer(const std::filesystem::path& model) {
    options_.port = 0;
    options_.allowed_hosts = {"x"};
    options_.log = [this](std::string_view line) {
      const nlohmann::json event = nlohmann::json::parse(line, nullptr, false);
      if (!event.is_discarded() && event.value("event", "") == "listening") {
        port_ = event["port"].get<std::uint16_t>();
        listening_.happen();
      }
      return true;
    };
    options_.stop_requested = [this] { return stopping_.load(); };
    thread_ = std::thread([this, model] { run_server({{.path = model}}, options_); });
    listening_.wait();
  }
  ~WholeServer() {
    stopping_ = true;
    thread_.join();
  }
  WholeServer(const WholeServer&) = delete;
  WholeServer& operator=(const WholeServer&) = delete;

  /// Returns the reply, with status 0 if the connection was closed instead.
  HttpReply ask(const nlohmann::json& body) const {
    HttpClient client(port_);
    return client.request(test::request_text("POST /v1/completions",
                                             "Connection: close\r\nContent-Type: application/json\r\n", body.dump()));
  }

 private:
  ServeOptions options_;
  std::uint16_t port_ = 0;
  test::Event listening_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

/// The numbers of outcomes while an allocation of each answer failed.
struct Counts {
  int complete = 0;
  int failed = 0;  ///< answered with 500, or with an event
  int closed = 0;  ///< without an answer: memory of the network's thread failed
};

/// Makes the first allocation of an answer fail, then the second, and so on until all succeed.
Counts fail_each_allocation(const WholeServer& server, const nlohmann::json& body, const nlohmann::json& other) {
  Counts counts;
  const std::string expected = server.ask(other).body.substr(0, 4);
  for (std::int64_t place = 1; counts.complete < 20 && place < 20'000; ++place) {
    CAPTURE(place);
    allocations_left = place;
    const HttpReply reply = server.ask(body);
    const bool none_failed = allocations_left > 0;
    allocations_left = 0;
    const bool has_event = reply.body.find("data: {\"error\"") != std::string::npos;
    if (reply.status == 500 || has_event) {
      ++counts.failed;
    } else if (reply.status == 200 && reply.complete) {
      counts.complete += none_failed ? 1 : 0;
    } else {
      CHECK((reply.status == 0 || reply.status == 200));
      ++counts.closed;
    }
    const HttpReply next = server.ask(other);
    CHECK(next.status == 200);
    CHECK(next.body.substr(0, 4) == expected);
    if (next.status != 200) break;
  }
  return counts;
}

TEST_CASE("if any allocation of an answer fails, that request ends with an error and the server continues") {
  fails_never = true;
  may_leak = true;
  const test::TemporaryDirectory directory;
  test::TinyModel model = test::random_model();
  model.tokenizer = test::tiny_tokenizer_json();
  const WholeServer server(model.write(directory / "model"));
  const nlohmann::json other = {{"prompt", "he"}, {"max_tokens", 2}, {"temperature", 0}};
  nlohmann::json body = {{"prompt", "hello"}, {"max_tokens", 3}, {"temperature", 0},  {"logprobs", 2},
                         {"echo", true},      {"n", 2},          {"ignore_eos", true}};
  for (const bool stream : {false, true}) {
    CAPTURE(stream);
    body["stream"] = stream;
    const Counts counts = fail_each_allocation(server, body, other);
    MESSAGE("complete ", counts.complete, ", told ", counts.failed, ", closed ", counts.closed);
    CHECK(counts.failed > 20);
  }
  may_leak = false;
  fails_never = false;
}

}  // namespace
}  // namespace ballast::serve
