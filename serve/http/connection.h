// One client's connection: requests in, answers out, one after the other.
#ifndef BALLAST_SERVE_HTTP_CONNECTION_H_
#define BALLAST_SERVE_HTTP_CONNECTION_H_

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http/exchange.h"
#include "serve/http/http_server.h"
#include "serve/http/request_parser.h"
#include "serve/http/response_text.h"
#include "serve/http/tls_handshakes.h"

namespace ballast::serve {

/// The part of the server that a connection uses. The server outlives its open connections.
class ConnectionHost {
 public:
  ConnectionHost() = default;
  virtual ~ConnectionHost() = default;
  ConnectionHost(const ConnectionHost&) = delete;
  ConnectionHost& operator=(const ConnectionHost&) = delete;

  virtual const HttpOptions& options() const = 0;
  virtual std::weak_ptr<boost::asio::io_context> network() const = 0;
  virtual bool draining() const = 0;
  /// Returns null without TLS.
  virtual TlsHandshakes* handshakes() = 0;
  virtual void handle(std::shared_ptr<HttpExchange> exchange) = 0;
  /// Is called when the connection has closed.
  virtual void forget(Connection& connection) = 0;
};

/// Lives on the network thread. A read is nearly always pending, so that a disconnected client is noticed at once.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  /// `refused`: the client only receives an error about too many connections.
  Connection(ConnectionHost& host, boost::asio::ip::tcp::socket socket, boost::asio::ssl::context* tls,
             std::string client, bool refused);

  const std::string& client() const { return client_; }
  bool refused() const { return refused_; }

  void start();

  /// Takes the news of `answer`.
  void deliver(Answer& answer);

  /// Ends phases that exceed their time limit. Is called several times a second.
  void check_time(Clock::time_point now);

  /// Closes the connection if it has no open request.
  void drain();

  void close();

 private:
  enum class Phase {
    kHandshake,
    kIdle,  ///< between requests
    kHead,
    kBody,
    kAnswer,  ///< until all of it is sent
    kLast,    ///< an error is being sent, then the connection ends
    kLinger,  ///< everything is sent; the client may still be sending
    kClosed,
  };
  using Error = boost::system::error_code;

  /// Runs `action`; an exception (of a failed allocation) ends only this connection.
  template <typename Action>
  void guarded(Action action);

  void shake_hands();
  void begin();
  void read();
  void on_read(Error error, std::size_t size);
  void on_left(Error error);
  void advance();
  void begin_body();
  bool hold_body();
  void dispatch();

  void respond(HttpResponse response);
  void send(std::string bytes);
  void write();
  void on_written(Error error, std::size_t size);
  void on_all_sent();
  std::size_t unsent() const { return sending_.size() - sent_ + waiting_.size(); }
  AnswerForm form() const;

  void become_idle();
  void fail(unsigned status, std::string_view type, std::string_view message);
  void refuse(const HttpResponse& response);
  void begin_outcome();
  void tell_outcome(bool complete) noexcept;
  void linger();
  void reset();

  ConnectionHost& host_;  ///< must not be used after closing
  const HttpLimits limits_;
  boost::asio::ip::tcp::socket socket_;
  std::optional<boost::asio::ssl::stream<boost::asio::ip::tcp::socket&>> tls_;
  const std::string client_;
  const bool refused_;

  Phase phase_ = Phase::kHandshake;
  Clock::time_point since_;  ///< begin of the phase

  std::array<char, 16 << 10> received_;  ///< buffer of the pending read
  bool reading_ = false;
  bool client_ended_ = false;   ///< it will send nothing more
  std::string input_;           ///< not parsed yet
  std::size_t body_bytes_ = 0;  ///< received bytes of the body, as sent
  std::unique_ptr<RequestParser> parser_;
  MemoryShare memory_;  ///< for the body that is being received

  std::shared_ptr<Answer> answer_;
  bool head_only_ = false;
  bool http_1_0_ = false;
  bool keep_alive_ = false;
  bool streams_ = false;
  std::string heartbeat_;  ///< of the stream; empty: none
  bool answered_ = false;  ///< the answer is complete; parts of it may be unsent
  Clock::time_point last_piece_;
  std::optional<HttpOutcome> outcome_;  ///< of the open request
  Clock::time_point head_ended_;

  std::string sending_;  ///< the pending write
  std::size_t sent_ = 0;
  std::string waiting_;  ///< for the next write
  bool writing_ = false;
  std::optional<Clock::time_point>
      behind_since_;            ///< the time since which more than limits_.unsent_bytes have been unsent
  Clock::time_point progress_;  ///< the last time when the client accepted data, or when sending began
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_HTTP_CONNECTION_H_
