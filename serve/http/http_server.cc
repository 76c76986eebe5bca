#include "serve/http/http_server.h"

#include <openssl/ssl.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "serve/http/connection.h"

namespace ballast::serve {

namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using SystemError = boost::system::error_code;

constexpr std::chrono::milliseconds kTick{100};

// Connections beyond the limits that still receive an error. Further connections are closed at once.
constexpr std::size_t kMostRefused = 64;

std::optional<asio::ssl::context> tls_context(const HttpOptions& options) {
  if (options.certificate.empty() && options.private_key.empty()) return std::nullopt;
  if (options.certificate.empty()) throw Error(options.private_key.string(), "is a key without a certificate");
  if (options.private_key.empty()) throw Error(options.certificate.string(), "is a certificate without a key");
  asio::ssl::context context(asio::ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.native_handle(), SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_session_cache_mode(context.native_handle(), SSL_SESS_CACHE_OFF);
  // Without this, OpenSSL asks for the password of a key on the terminal.
  context.set_password_callback([](std::size_t, asio::ssl::context::password_purpose) { return std::string(); });
  try {
    context.use_certificate_chain_file(options.certificate.string());
  } catch (const boost::system::system_error& error) {
    throw Error(options.certificate.string(), "cannot be read as certificates in PEM: " + error.code().message());
  }
  try {  // also compares it with the certificate
    context.use_private_key_file(options.private_key.string(), asio::ssl::context::pem);
  } catch (const boost::system::system_error& error) {
    throw Error(options.private_key.string(), "cannot be used as the private key of " + options.certificate.string() +
                                                  " (in PEM, without a password): " + error.code().message());
  }
  return context;
}

Tcp::acceptor listening(asio::io_context& network, const HttpOptions& options) {
  const bool brackets = options.host.find(':') != std::string::npos;
  const std::string place = (brackets ? "[" + options.host + "]" : options.host) + ":" + std::to_string(options.port);
  SystemError error;
  const asio::ip::address address =
      asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, error);
  if (error) throw Error(place, "is not an address to listen at, such as 127.0.0.1 or ::1");
  try {
    return {network, Tcp::endpoint(address, options.port), /*reuse_addr=*/true};
  } catch (const boost::system::system_error& refusal) {
    throw Error(place, "cannot listen: " + refusal.code().message());
  }
}

/// Returns the address as text; an IPv4 client of an IPv6 socket has its IPv4 address.
std::string address_text(asio::ip::address address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  return address.to_string();
}

}  // namespace

class HttpServer::Network final : public ConnectionHost {
 public:
  Network(const HttpOptions& options, HttpHandler handler)
      : options_(options),
        handler_(std::move(handler)),
        tls_(tls_context(options)),
        handshakes_(tls_ ? std::make_unique<TlsHandshakes>() : nullptr),
        acceptor_(listening(*context_, options)),
        timer_(*context_),
        port_(acceptor_.local_endpoint().port()) {}

  ~Network() override {
    finish(/*close_all=*/true);
    handshakes_.reset();
    context_->restart();
    context_->poll();  // cancelled operations release their connections
  }

  std::uint16_t port() const { return port_; }

  void run(const std::function<void()>& tick) {
    if (finished_) return;
    tick_ = tick;
    // A handler fails if an allocation fails. Its work is lost, and its connection ends by a time limit.
    for (;;) {
      try {
        accept();
        wait_for_tick();
        context_->run();
        return;
      } catch (const std::exception&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }

  void drain() {
    asio::post(*context_, [this] {
      if (std::exchange(draining_, true)) return;
      SystemError ignored;
      std::ignore = acceptor_.close(ignored);
      for (const auto& connection : snapshot()) connection->drain();
      if (connections_.empty()) finish(/*close_all=*/false);
    });
  }

  void stop() {
    asio::post(*context_, [this] { finish(/*close_all=*/true); });
  }

  const HttpOptions& options() const override { return options_; }
  std::weak_ptr<asio::io_context> network() const override { return context_; }
  bool draining() const override { return draining_; }
  TlsHandshakes* handshakes() override { return handshakes_.get(); }
  void handle(std::shared_ptr<HttpExchange> exchange) override { handler_(std::move(exchange)); }

  void forget(Connection& connection) override {
    if (connection.refused()) {
      --refused_;
    } else if (const auto found = of_address_.find(connection.client()); --found->second == 0) {
      of_address_.erase(found);
    }
    connections_.erase(connection.shared_from_this());
    if (draining_ && connections_.empty()) finish(/*close_all=*/false);
  }

 private:
  /// Cancels all waiting operations, so that run() returns.
  void finish(bool close_all) {
    finished_ = true;
    SystemError ignored;
    std::ignore = acceptor_.close(ignored);
    timer_.cancel();
    if (!close_all) return;
    for (const auto& connection : snapshot()) connection->close();
  }

  /// Copies the set of connections, because connections that close leave it.
  std::vector<std::shared_ptr<Connection>> snapshot() const { return {connections_.begin(), connections_.end()}; }

  void accept() {
    if (accepting_ || !acceptor_.is_open()) return;
    acceptor_.async_accept([this](SystemError error, Tcp::socket socket) {
      accepting_ = false;
      if (error) return;  // for example no file descriptors: the next tick tries again
      try {
        admit(std::move(socket));
      } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory for this one
      }
      accept();
    });
    accepting_ = true;
  }

  void admit(Tcp::socket socket) {
    SystemError error;
    const Tcp::endpoint remote = socket.remote_endpoint(error);
    if (error || draining_ || finished_) return;
    const std::string client = address_text(remote.address());
    const auto found = of_address_.find(client);
    const std::size_t of_address = found == of_address_.end() ? 0 : found->second;
    const bool refused = connections_.size() - refused_ >= options_.limits.connections ||
                         of_address >= options_.limits.connections_of_address;
    if (refused && refused_ >= kMostRefused) return;
    const auto connection =
        std::make_shared<Connection>(*this, std::move(socket), tls_ ? &*tls_ : nullptr, client, refused);
    std::size_t& counted = refused ? refused_ : of_address_[client];
    connections_.insert(connection);
    ++counted;
    connection->start();
  }

  void wait_for_tick() {
    if (ticking_ || finished_) return;
    timer_.expires_after(kTick);
    timer_.async_wait([this](SystemError error) {
      ticking_ = false;
      if (error || finished_) return;
      if (tick_) tick_();
      accept();
      const auto now = Connection::Clock::now();
      for (const auto& connection : snapshot()) connection->check_time(now);
      wait_for_tick();
    });
    ticking_ = true;
  }

  const HttpOptions options_;
  const HttpHandler handler_;
  std::function<void()> tick_;
  const std::shared_ptr<asio::io_context> context_ =
      std::make_shared<asio::io_context>(1);  // shared with the thread that runs it
  std::optional<asio::ssl::context> tls_;
  std::unique_ptr<TlsHandshakes> handshakes_;
  Tcp::acceptor acceptor_;
  asio::steady_timer timer_;
  const std::uint16_t port_;
  bool accepting_ = false;
  bool ticking_ = false;
  bool draining_ = false;
  bool finished_ = false;
  std::unordered_set<std::shared_ptr<Connection>> connections_;
  std::size_t refused_ = 0;                                  ///< connections that only receive an error
  std::unordered_map<std::string, std::size_t> of_address_;  ///< connections by address, without refused ones
};

HttpServer::HttpServer(const HttpOptions& options, HttpHandler handler)
    : network_(std::make_unique<Network>(options, std::move(handler))) {}

HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const {
  return network_->port();
}

void HttpServer::run(const std::function<void()>& tick) {
  network_->run(tick);
}

void HttpServer::drain() {
  network_->drain();
}

void HttpServer::stop() {
  network_->stop();
}

}  // namespace ballast::serve
