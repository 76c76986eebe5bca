#include "serve/http/http_server.h"

#include <doctest/doctest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "error_message.h"
#include "http_client.h"
#include "served.h"
#include "temporary_directory.h"

namespace ballast::serve {
namespace {

using namespace std::chrono_literals;
using test::any_port;
using test::Contains;
using test::error_message;
using test::Event;
using test::HttpClient;
using test::request_text;
using test::Served;
using test::text_response;

/// A key and a self-signed certificate, as files.
struct Identity {
  std::filesystem::path certificate;
  std::filesystem::path private_key;
};

Identity new_identity(const std::filesystem::path& directory, const std::string& name) {
  Identity identity{directory / (name + "-certificate.pem"), directory / (name + "-key.pem")};
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"),
                                                                &EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), &X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_sign(certificate.get(), key.get(), nullptr);
  const auto open = [](const std::filesystem::path& path) {
    return std::unique_ptr<BIO, decltype(&BIO_free)>(BIO_new_file(path.c_str(), "w"), &BIO_free);
  };
  PEM_write_bio_X509(open(identity.certificate).get(), certificate.get());
  PEM_write_bio_PrivateKey(open(identity.private_key).get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return identity;
}

class TlsClient final : public HttpClient {
 public:
  explicit TlsClient(std::uint16_t port, int newest_version = TLS1_3_VERSION)
      : HttpClient(port), context_(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free), ssl_(nullptr, &SSL_free) {
    ::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to its socket without MSG_NOSIGNAL
    SSL_CTX_set_max_proto_version(context_.get(), newest_version);
    SSL_CTX_set_security_level(context_.get(), 0);  // otherwise it would not offer the old versions
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), socket());
    connected_ = SSL_connect(ssl_.get()) == 1;
  }

  bool connected() const { return connected_; }
  void end_tls() const { SSL_shutdown(ssl_.get()); }
  bool ended_in_order() const { return (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0; }

 private:
  ssize_t transmit(std::string_view bytes) override {
    return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
  }
  ssize_t receive(char* bytes, std::size_t size) override {
    return SSL_read(ssl_.get(), bytes, static_cast<int>(size));
  }

  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  bool connected_ = false;
};

class TlsFiles {
 public:
  HttpOptions options() const {
    HttpOptions options = any_port();
    options.certificate = identity_.certificate;
    options.private_key = identity_.private_key;
    return options;
  }
  const test::TemporaryDirectory& directory() const { return directory_; }

 private:
  const test::TemporaryDirectory directory_;
  const Identity identity_ = new_identity(directory_.path(), "own");
};

TEST_CASE("requests and streams are served over TLS as without it") {
  const TlsFiles files;
  Served served(files.options());
  TlsClient client(served.port());
  REQUIRE(client.connected());
  const std::string body(100'000, 'a');
  CHECK(client.request(request_text("POST /echo", "", body)).body == "POST /echo 127.0.0.1 " + body);
  client.send(request_text("GET /held", "Connection: close\r\n"));
  const auto exchange = served.take();
  exchange->begin_stream(text_response(""));
  for (int piece = 0; piece < 100; ++piece) exchange->write("piece");
  exchange->end();
  CHECK(client.read_reply().body.size() == 500);
  CHECK(client.read_rest().empty());
  CHECK(client.ended_in_order());
}

TEST_CASE("over TLS a disconnection is reported, and limits apply") {
  const TlsFiles files;
  HttpOptions options = files.options();
  options.limits.body_bytes = 1000;
  Served served(options);
  for (const bool in_order : {false, true}) {
    TlsClient client(served.port());
    client.send(request_text("GET /held"));
    const auto exchange = served.take();
    Event gone;
    exchange->on_gone([&] { gone.happen(); });
    if (in_order) {
      client.end_tls();
    } else {
      client.close();
    }
    gone.wait();
  }
  TlsClient uploading(served.port());
  uploading.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
  uploading.send(std::string(1'000'000, 'a'));
  CHECK(uploading.read_reply().status == 413);
}

TEST_CASE("TLS connections beyond the limit are refused with a response") {
  const TlsFiles files;
  HttpOptions options = files.options();
  options.limits.connections = 1;
  Served served(options);
  const HttpClient first(served.port());
  TlsClient second(served.port());
  CHECK(second.read_reply().status == 503);
}

TEST_CASE("connections without TLS are closed, and so are silent ones after a timeout") {
  const TlsFiles files;
  HttpOptions options = files.options();
  options.limits.handshake_time = 50ms;
  Served served(options);
  HttpClient silent(served.port());
  CHECK(silent.read_rest().empty());
  HttpClient plain(served.port());
  CHECK(plain.request(request_text("GET /echo")).status == 0);
}

TEST_CASE("versions of TLS before 1.2 are refused") {
  const TlsFiles files;
  Served served(files.options());
  CHECK(!TlsClient(served.port(), TLS1_1_VERSION).connected());
  CHECK(TlsClient(served.port(), TLS1_2_VERSION).connected());
}

TEST_CASE("certificates and keys that cannot be used are named") {
  const TlsFiles files;
  const Identity other = new_identity(files.directory().path(), "other");
  HttpOptions options = files.options();
  const auto start = [&] { const HttpServer server(options, [](const std::shared_ptr<HttpExchange>&) {}); };
  CHECK(error_message(start) == "no error");
  options.private_key = other.private_key;
  CHECK(error_message(start) == Contains("other-key.pem: cannot be used as the private key of "));
  options.private_key = files.directory() / "none.pem";
  CHECK(error_message(start) == Contains("none.pem: cannot be used"));
  options.private_key.clear();
  CHECK(error_message(start) == Contains("own-certificate.pem: is a certificate without a key"));
  options = files.options();
  options.certificate = test::write_file(files.directory() / "garbage.pem", "garbage");
  CHECK(error_message(start) == Contains("garbage.pem: cannot be read as certificates in PEM: "));
  options.certificate.clear();
  CHECK(error_message(start) == Contains("own-key.pem: is a key without a certificate"));
}

}  // namespace
}  // namespace ballast::serve
