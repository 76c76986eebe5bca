// A client of HTTP that sends given bytes and reads responses. It waits without a timeout.
#ifndef BALLAST_TESTS_SUPPORT_HTTP_CLIENT_H_
#define BALLAST_TESTS_SUPPORT_HTTP_CLIENT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ballast::test {

struct HttpReply {
  int status = 0;
  std::string head;  ///< includes the status line
  std::string body;
  bool complete = false;  ///< read to the end that the head, the last chunk or the connection sets

  bool has(std::string_view line) const { return head.find("\r\n" + std::string(line) + "\r\n") != std::string::npos; }
};

class HttpClient {
 public:
  /// Connects. A small `receive_buffer` makes the effects of a slow reader visible.
  explicit HttpClient(std::uint16_t port, int receive_buffer = 0) : HttpClient() {
    if (receive_buffer > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    connect(port);
  }
  /// Makes a client that connect() connects later.
  HttpClient() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (socket_ < 0) throw std::runtime_error("no socket");
  }
  virtual ~HttpClient() { close(); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void connect(std::uint16_t port) const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error("cannot connect");
    }
  }

  /// Sends the bytes; returns false if the server has closed the connection.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = transmit(bytes);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  HttpReply request(std::string_view bytes) {
    send(bytes);
    return read_reply();
  }

  /// Reads a reply. `head_only`: the reply to HEAD. Returns status 0 if the connection ends instead.
  HttpReply read_reply(bool head_only = false) {
    HttpReply reply;
    reply.head = read_through("\r\n\r\n");
    if (!reply.head.starts_with("HTTP/1.1 ")) return reply;
    reply.status = ::atoi(reply.head.c_str() + 9);
    constexpr std::string_view kLength = "\r\nContent-Length: ";
    const std::size_t length = reply.head.find(kLength);
    if (head_only || reply.status < 200) {
      reply.complete = true;
    } else if (reply.has("Transfer-Encoding: chunked")) {
      read_chunks(reply);
    } else if (length != std::string::npos) {
      const std::size_t wanted = ::strtoul(reply.head.c_str() + length + kLength.size(), nullptr, 10);
      reply.body = read_bytes(wanted);
      reply.complete = reply.body.size() == wanted;
    } else {
      reply.body = read_rest();
      reply.complete = !was_reset_;
    }
    return reply;
  }

  /// Reads one piece of a stream whose head has been read. Returns an empty text at the end of the stream or the
  /// connection.
  std::string read_chunk() {
    const std::string line = read_through("\r\n");
    const std::size_t size = ::strtoul(line.c_str(), nullptr, 16);
    std::string piece = read_bytes(size);
    read_through("\r\n");
    return piece;
  }

  /// Reads up to and including `end`, or until the connection ends.
  std::string read_through(std::string_view end) {
    std::size_t found = std::string::npos;
    while ((found = input_.find(end)) == std::string::npos && receive_more()) {
    }
    return take(found == std::string::npos ? input_.size() : found + end.size());
  }

  /// Reads until the server closes the connection.
  std::string read_rest() {
    while (receive_more()) {
    }
    return take(input_.size());
  }

  /// Returns whether the connection ended by a reset.
  bool was_reset() const { return was_reset_; }

  void end_sending() const { ::shutdown(socket_, SHUT_WR); }

  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

 protected:
  virtual ssize_t transmit(std::string_view bytes) { return ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  virtual ssize_t receive(char* bytes, std::size_t size) { return ::recv(socket_, bytes, size, 0); }
  int socket() const { return socket_; }

 private:
  std::string take(std::size_t size) {
    std::string taken = input_.substr(0, size);
    input_.erase(0, size);
    return taken;
  }

  std::string read_bytes(std::size_t size) {
    while (input_.size() < size && receive_more()) {
    }
    return take(size);
  }

  void read_chunks(HttpReply& reply) {
    for (;;) {
      const std::string line = read_through("\r\n");
      if (line.empty()) return;
      const std::size_t size = ::strtoul(line.c_str(), nullptr, 16);
      reply.body += read_bytes(size);
      const std::string end = read_through("\r\n");
      if (size == 0) {
        reply.complete = end == "\r\n";
        return;
      }
    }
  }

  bool receive_more() {
    std::array<char, 16384> bytes;
    const ssize_t size = receive(bytes.data(), bytes.size());
    if (size > 0) input_.append(bytes.data(), static_cast<std::size_t>(size));
    if (size < 0) was_reset_ = true;
    return size > 0;
  }

  int socket_;
  bool was_reset_ = false;
  std::string input_;
};

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_HTTP_CLIENT_H_
