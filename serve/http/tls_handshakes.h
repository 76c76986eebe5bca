// TLS handshakes on a separate thread: their arithmetic takes a thousand times as long as other network work.
#ifndef BALLAST_SERVE_HTTP_TLS_HANDSHAKES_H_
#define BALLAST_SERVE_HTTP_TLS_HANDSHAKES_H_

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <thread>

// OpenSSL's type.
struct ssl_st;

namespace ballast::serve {

/// Runs one handshake's computation at a time, at a low priority; any number of handshakes may wait for their clients.
class TlsHandshakes {
 public:
  TlsHandshakes();

  /// Cancels pending handshakes.
  ~TlsHandshakes();
  TlsHandshakes(const TlsHandshakes&) = delete;
  TlsHandshakes& operator=(const TlsHandshakes&) = delete;

  /// Runs the server's part of a handshake over `socket`, which is non-blocking, and calls `done` on the handshakes'
  /// thread. Until then nothing else may use `ssl`, whose own channel is restored before the call. Shutting the socket
  /// down ends the handshake.
  void start(ssl_st* ssl, int socket, std::function<void(bool succeeded)> done);

 private:
  class Handshake;

  void run();

  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{context_.get_executor()};
  std::thread thread_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_HTTP_TLS_HANDSHAKES_H_
