// TLS handshakes on a thread of their own: their arithmetic takes a thousand times as long as other network work.
#ifndef BALLAST_SERVE_HTTP_TLS_HANDSHAKES_H_
#define BALLAST_SERVE_HTTP_TLS_HANDSHAKES_H_

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <thread>

// OpenSSL's type.
struct ssl_st;

namespace ballast::serve {

/// One handshake computes at a time, at a low priority; any number of them wait for their clients.
class TlsHandshakes {
 public:
  TlsHandshakes();

  /// Drops those that are under way.
  ~TlsHandshakes();
  TlsHandshakes(const TlsHandshakes&) = delete;
  TlsHandshakes& operator=(const TlsHandshakes&) = delete;

  /// Does the server's part of a handshake over `socket`, which is not blocking, and calls `done` on the handshakes'
  /// thread. Until then nothing else uses `ssl`, whose own channel is put back before. Shutting the socket down ends
  /// it.
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
