// HTTP/1.1 on one thread: connections, timeouts, limits and TLS. What is said, the handler decides.
#ifndef BALLAST_SERVE_HTTP_HTTP_SERVER_H_
#define BALLAST_SERVE_HTTP_HTTP_SERVER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "serve/http/http_message.h"
#include "serve/http/memory_budget.h"

namespace ballast::serve {

/// What a client may take. Who exceeds a limit is told so where there still is a way to (408, 413, 431, 503), and loses
/// the connection.
struct HttpLimits {
  std::size_t header_bytes = 8 << 10;
  std::size_t body_bytes = 8 << 20;
  std::size_t unsent_bytes = 256 << 10;              ///< of a stream: who is so far behind,
  std::chrono::milliseconds behind_time{2'000};      ///< and stays so, is gone; who is 64 times as far, at once
  std::size_t least_body_rate = 16 << 10;            ///< bytes a second, on average, after header_time
  std::chrono::milliseconds header_time{10'000};     ///< for a request's head, from its first byte on
  std::chrono::milliseconds idle_time{60'000};       ///< between requests, and for a client to take what was sent
  std::chrono::milliseconds handshake_time{10'000};  ///< for TLS
  std::size_t connections = 1024;
  std::size_t connections_of_address = 256;
};

/// What became of a request.
struct HttpOutcome {
  std::string method;  ///< empty, as is the path, where the request could not be read
  std::string path;
  std::string client;
  unsigned status = 0;    ///< 0: the client left before there was an answer
  double seconds = 0;     ///< from the end of its head
  bool complete = false;  ///< the client was sent all of it
};

struct HttpOptions {
  std::string host = "127.0.0.1";       ///< an address
  std::uint16_t port = 8080;            ///< 0: any that is free
  std::filesystem::path certificate{};  ///< chain in PEM; empty: no TLS
  std::filesystem::path private_key{};  ///< in PEM
  HttpLimits limits{};
  /// What requests may hold together, their bodies from the first byte on; null: no limit.
  std::shared_ptr<MemoryBudget> memory{};
  /// Sent in a stream that has been silent for so long, so that nobody on the way takes it for dead.
  std::string heartbeat{};
  std::chrono::milliseconds heartbeat_time{15'000};
  /// Asked on the network's thread once a head is read, before its body: an answer is sent instead of reading on.
  std::function<std::optional<HttpResponse>(const HttpRequest&)> check_head{};
  /// Told on the network's thread.
  std::function<void(const HttpOutcome&)> on_outcome{};
};

/// One request and its answer: respond(), or begin_stream() and write() until end(). May be called from any thread, by
/// one at a time. What is said after the client has gone is dropped. Where the last share of an exchange goes before an
/// answer ended, the connection is closed.
class HttpExchange {
 public:
  HttpExchange() = default;
  virtual ~HttpExchange() = default;
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  virtual const HttpRequest& request() const = 0;

  /// Says how many bytes the request holds from here on, its body included, until its answer was sent. False, and as
  /// before, where HttpOptions::memory has not so many left.
  virtual bool hold(std::size_t bytes) = 0;

  /// Frees the request's body, which nobody looks at any more.
  virtual void drop_body() = 0;

  virtual void respond(HttpResponse response) = 0;

  /// `head` has no body: it comes in pieces.
  virtual void begin_stream(HttpResponse head) = 0;
  virtual void write(std::string piece) = 0;
  virtual void end() = 0;

  /// Calls `callback` once, on the network thread, when the client leaves before the answer has ended, or reads too
  /// slowly; at once where that has happened.
  virtual void on_gone(std::function<void()> callback) = 0;
};

/// Called on the network thread, which must not wait: it answers, or hands the exchange on.
using HttpHandler = std::function<void(std::shared_ptr<HttpExchange>)>;

class HttpServer {
 public:
  /// Listens from here on. Throws Error when it cannot, or for a certificate that does not fit.
  HttpServer(const HttpOptions& options, HttpHandler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;

  /// Serves on the calling thread, until stop(), or until the last answer after drain() has ended. `tick` is called ten
  /// times a second, on this thread.
  void run(const std::function<void()>& tick);

  /// No more connections; those without an open request are closed, the others after their answer. Any thread.
  void drain();

  /// Closes everything. Any thread.
  void stop();

 private:
  class Network;
  std::unique_ptr<Network> network_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_HTTP_HTTP_SERVER_H_
