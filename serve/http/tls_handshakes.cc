#include "serve/http/tls_handshakes.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <memory>
#include <utility>

#include "serve/http/thread_priority.h"

namespace ballast::serve {

namespace asio = boost::asio;

/// One handshake. OpenSSL reads from a socket no more than the handshake needs, so the client's first request stays in
/// the socket for the original channel.
class TlsHandshakes::Handshake : public std::enable_shared_from_this<Handshake> {
 public:
  Handshake(asio::io_context& context, ssl_st* ssl, int socket, std::function<void(bool)> done)
      : descriptor_(context, ::dup(socket)), ssl_(ssl), channel_(SSL_get_rbio(ssl)), done_(std::move(done)) {
    BIO_up_ref(channel_);  // SSL_set_fd releases the reference that `ssl` holds
    SSL_set_fd(ssl_, descriptor_.native_handle());
    SSL_set_accept_state(ssl_);
  }
  ~Handshake() {
    if (channel_ != nullptr) restore_channel();
  }
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  void step() {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_);
    if (result == 1) return finish(true);
    switch (SSL_get_error(ssl_, result)) {
      case SSL_ERROR_WANT_READ:
        return wait(asio::posix::stream_descriptor::wait_read);
      case SSL_ERROR_WANT_WRITE:
        return wait(asio::posix::stream_descriptor::wait_write);
      default:
        return finish(false);
    }
  }

 private:
  void wait(asio::posix::stream_descriptor::wait_type event) {
    descriptor_.async_wait(event, [self = shared_from_this()](boost::system::error_code error) {
      error ? self->finish(false) : self->step();
    });
  }

  void finish(bool succeeded) {
    restore_channel();
    done_(succeeded);
  }

  void restore_channel() {
    BIO* const channel = std::exchange(channel_, nullptr);
    SSL_set_bio(ssl_, channel, channel);
  }

  asio::posix::stream_descriptor descriptor_;  // a duplicate: the connection may close its own at any time
  ssl_st* ssl_;
  BIO* channel_;
  std::function<void(bool)> done_;
};

TlsHandshakes::TlsHandshakes() : thread_([this] { run(); }) {}

TlsHandshakes::~TlsHandshakes() {
  context_.stop();
  thread_.join();
}

void TlsHandshakes::run() {
  constexpr int kNiceness = 5;
  lower_priority(kNiceness);
  // OpenSSL writes without MSG_NOSIGNAL.
  sigset_t pipe;
  ::sigemptyset(&pipe);
  ::sigaddset(&pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  while (!context_.stopped()) {
    try {
      context_.run();
    } catch (
        const std::exception&) {  // NOLINT(bugprone-empty-catch): costs one handshake, which ends by its time limit
    }
  }
}

void TlsHandshakes::start(ssl_st* ssl, int socket, std::function<void(bool)> done) {
  const auto handshake = std::make_shared<Handshake>(context_, ssl, socket, std::move(done));
  asio::post(context_, [handshake] { handshake->step(); });
}

}  // namespace ballast::serve
