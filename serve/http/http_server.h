// HTTP/1.1 on one thread: connections, timeouts, limits and TLS. The handler creates the answers.
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

/// Limits for a client. A client that exceeds one gets an error if possible (408, 413, 431, 503) and loses the
/// connection.
struct HttpLimits {
  std::size_t header_bytes = 8 << 10;
  std::size_t body_bytes = 8 << 20;
  std::size_t unsent_bytes = 256 << 10;  ///< unsent bytes of a stream that a client may have
  std::chrono::milliseconds behind_time{
      2'000};                              ///< for at most this time; at 64 times as many it is disconnected at once
  std::size_t least_body_rate = 16 << 10;  ///< average bytes per second, after header_time
  std::chrono::milliseconds header_time{10'000};     ///< for a request's head, from its first byte on
  std::chrono::milliseconds idle_time{60'000};       ///< between requests, and for a client to accept sent data
  std::chrono::milliseconds handshake_time{10'000};  ///< for TLS
  std::size_t connections = 1024;
  std::size_t connections_of_address = 256;
};

/// The result of a request.
struct HttpOutcome {
  std::string method;  ///< empty, as is the path, if the request could not be parsed
  std::string path;
  std::string client;
  unsigned status = 0;    ///< 0: the client disconnected before the answer
  double seconds = 0;     ///< since the end of its head
  bool complete = false;  ///< the whole answer was sent
};

struct HttpOptions {
  std::string host = "127.0.0.1";       ///< an address
  std::uint16_t port = 8080;            ///< 0: any that is free
  std::filesystem::path certificate{};  ///< chain in PEM; empty: no TLS
  std::filesystem::path private_key{};  ///< in PEM
  HttpLimits limits{};
  /// The memory budget of requests, including their bodies from the first byte on; null: no limit.
  std::shared_ptr<MemoryBudget> memory{};
  /// After this time of silence a stream's heartbeat is sent, so that proxies do not close it, and clients wait.
  std::chrono::milliseconds heartbeat_time{15'000};
  /// Is called on the network thread after a head was read, before its body; a returned answer is sent instead of
  /// reading the body.
  std::function<std::optional<HttpResponse>(const HttpRequest&)> check_head{};
  /// Is called on the network thread.
  std::function<void(const HttpOutcome&)> on_outcome{};
};

/// One request and its answer: respond(), or begin_stream() and write() until end(). May be used from any thread, by
/// one thread at a time. Output after the client has disconnected is dropped. If an exchange is destroyed before its
/// answer has ended, the connection is closed.
class HttpExchange {
 public:
  HttpExchange() = default;
  virtual ~HttpExchange() = default;
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  virtual const HttpRequest& request() const = 0;

  /// Sets how many bytes the request holds from now on, including its body, until its answer was sent. Returns false,
  /// and changes nothing, if HttpOptions::memory has not enough left.
  virtual bool hold(std::size_t bytes) = 0;

  /// Frees the request's body, which is no longer needed.
  virtual void drop_body() = 0;

  virtual void respond(HttpResponse response) = 0;

  /// Begins an answer whose body is sent in pieces; `head` has no body.
  virtual void begin_stream(HttpResponse head) = 0;
  virtual void write(std::string piece) = 0;
  virtual void end() = 0;

  /// Calls `callback` once, on the network thread, when the client disconnects before the answer has ended, or reads
  /// too slowly; immediately if that has already happened.
  virtual void on_gone(std::function<void()> callback) = 0;
};

/// Is called on the network thread and must not block: it answers, or passes the exchange on.
using HttpHandler = std::function<void(std::shared_ptr<HttpExchange>)>;

class HttpServer {
 public:
  /// Starts listening. Throws Error if it cannot, or for an invalid certificate.
  HttpServer(const HttpOptions& options, HttpHandler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;

  /// Serves on the calling thread until stop(), or until the last answer after drain() has ended. `tick` is called ten
  /// times a second on this thread.
  void run(const std::function<void()>& tick);

  /// Accepts no more connections; closes those without an open request, the others after their answer. Any thread.
  void drain();

  /// Closes everything. Any thread.
  void stop();

 private:
  class Network;
  std::unique_ptr<Network> network_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_HTTP_HTTP_SERVER_H_
