// An HTTP server in the test's own process.
#ifndef BALLAST_TESTS_SUPPORT_SERVED_H_
#define BALLAST_TESTS_SUPPORT_SERVED_H_

#include <doctest/doctest.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "http_client.h"
#include "serve/http/http_server.h"

namespace ballast::test {

/// Returns a request, for example "GET /echo".
inline std::string request_text(std::string_view line, std::string_view headers = "", std::string_view body = "") {
  std::string text(line);
  text.append(" HTTP/1.1\r\nHost: x\r\n").append(headers);
  if (!body.empty()) text.append("Content-Length: ").append(std::to_string(body.size())).append("\r\n");
  return text.append("\r\n").append(body);
}

inline serve::HttpOptions any_port() {
  serve::HttpOptions options;
  options.port = 0;
  return options;
}

inline serve::HttpOptions limited(serve::HttpLimits limits) {
  serve::HttpOptions options = any_port();
  options.limits = limits;
  return options;
}

/// Signals the waiting test that something has happened.
class Event {
 public:
  void happen() {
    const std::lock_guard lock(mutex_);
    happened_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return happened_; });
  }
  bool happened() {
    const std::lock_guard lock(mutex_);
    return happened_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool happened_ = false;
};

/// A server on a thread. "/echo" returns the request's body, "/throw" throws, "/drop" drops the exchange; the test gets
/// the exchange of every other request.
class Served {
 public:
  explicit Served(const serve::HttpOptions& options = any_port())
      : server_(options, [this](std::shared_ptr<serve::HttpExchange> exchange) { handle(std::move(exchange)); }),
        thread_([this] { server_.run([this] { count_tick(); }); }) {}
  ~Served() {
    server_.stop();
    thread_.join();
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  serve::HttpServer& server() { return server_; }
  std::uint16_t port() const { return server_.port(); }

  std::shared_ptr<serve::HttpExchange> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !held_.empty(); });
    std::shared_ptr<serve::HttpExchange> first = std::move(held_.front());
    held_.pop_front();
    return first;
  }

  void wait_for_ticks(int count) {
    std::unique_lock lock(mutex_);
    const int until = ticks_ + count;
    changed_.wait(lock, [&] { return ticks_ >= until; });
  }

  bool answers() const {
    HttpClient client(port());
    return client.request(request_text("GET /echo")).status == 200;
  }

 private:
  void handle(std::shared_ptr<serve::HttpExchange> exchange) {
    const serve::HttpRequest& request = exchange->request();
    if (request.path == "/throw") throw std::runtime_error("not for the client's eyes");
    if (request.path == "/drop") return;
    if (request.path == "/echo") {
      serve::HttpResponse response;
      response.content_type = "text/plain";
      response.body = request.method + " " + request.path + " " + request.client + " " + request.body;
      return exchange->respond(std::move(response));
    }
    const std::lock_guard lock(mutex_);
    held_.push_back(std::move(exchange));
    changed_.notify_all();
  }

  void count_tick() {
    const std::lock_guard lock(mutex_);
    ++ticks_;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<serve::HttpExchange>> held_;
  int ticks_ = 0;
  serve::HttpServer server_;
  std::thread thread_;
};

inline serve::HttpResponse text_response(std::string body) {
  return {.status = 200, .content_type = "text/plain", .body = std::move(body)};
}

inline HttpReply reply_to(const serve::HttpOptions& options, std::string_view bytes) {
  Served served(options);
  HttpClient client(served.port());
  HttpReply reply = client.request(bytes);
  if (reply.status >= 400) client.read_rest();  // returns when the server has closed the connection
  CHECK(served.answers());
  return reply;
}

inline HttpReply reply_to(std::string_view bytes) {
  return reply_to(any_port(), bytes);
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_SERVED_H_
