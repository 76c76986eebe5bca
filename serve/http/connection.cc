#include "serve/http/connection.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <limits>
#include <tuple>
#include <utility>

namespace ballast::serve {

namespace {

namespace asio = boost::asio;

// Bytes that are kept of requests that arrive before the answer to an earlier one; the rest stays in the socket's
// buffer.
constexpr std::size_t kMostInput = 16 << 10;

// After the last answer the client may still be sending. Closing at once would reset the connection, and the client
// might lose the answer (RFC 9112, 9.6).
constexpr std::chrono::milliseconds kLingerTime{2000};

// Capacity above which a connection frees its buffers after a long answer.
constexpr std::size_t kKeptCapacity = 64 << 10;

std::chrono::duration<double> seconds(Connection::Clock::duration duration) {
  return duration;
}

// A multiple of unsent_bytes that a client that reads at all does not reach.
constexpr std::size_t kHopelesslyBehind = 64;

/// The system's send buffer does not count as unsent, so it is kept small to detect slow readers, and the system drops
/// a connection whose client accepts no data.
void set_socket_options(asio::ip::tcp::socket& socket, const HttpLimits& limits) {
  const auto set = [&](int level, int name, int value) {
    ::setsockopt(socket.native_handle(), level, name, &value, sizeof value);
  };
  constexpr std::size_t kMost = std::numeric_limits<int>::max();
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_SNDBUF, static_cast<int>(std::min(limits.unsent_bytes, kMost)));
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(limits.idle_time.count()));
}

}  // namespace

Connection::Connection(ConnectionHost& host, asio::ip::tcp::socket socket, asio::ssl::context* tls, std::string client,
                       bool refused)
    : host_(host),
      limits_(host.options().limits),
      socket_(std::move(socket)),
      client_(std::move(client)),
      refused_(refused),
      since_(Clock::now()),
      memory_(host.options().memory) {
  if (tls != nullptr) tls_.emplace(socket_, *tls);
  set_socket_options(socket_, limits_);
}

template <typename Action>
void Connection::guarded(Action action) {
  try {
    if (phase_ != Phase::kClosed) action();
  } catch (const std::exception&) {
    close();
  }
}

void Connection::start() {
  guarded([&] { return tls_ ? shake_hands() : begin(); });
}

/// Runs the handshake on another thread. The connection lives until it has ended, and continues here.
void Connection::shake_hands() {
  socket_.native_non_blocking(true);
  auto done = [self = shared_from_this(), network = host_.network()](bool succeeded) mutable {
    const std::shared_ptr<asio::io_context> context = network.lock();
    if (!context) return;
    asio::post(*context, [self = std::move(self), succeeded] {
      self->guarded([&] { return succeeded ? self->begin() : self->close(); });
    });
  };
  host_.handshakes()->start(tls_->native_handle(), socket_.native_handle(), std::move(done));
}

void Connection::begin() {
  if (refused_) return fail(503, "overloaded_error", "too many connections");
  become_idle();
}

void Connection::become_idle() {
  phase_ = Phase::kIdle;
  since_ = Clock::now();
  answer_.reset();
  if (sending_.capacity() > kKeptCapacity) sending_ = {};
  if (waiting_.capacity() > kKeptCapacity) waiting_ = {};
  advance();
  read();
}

void Connection::read() {
  const bool full = phase_ == Phase::kAnswer && input_.size() >= kMostInput;
  if (reading_ || client_ended_ || full || phase_ == Phase::kClosed) return;
  reading_ = true;
  const auto buffer = asio::buffer(received_);
  auto handler = [self = shared_from_this()](Error error, std::size_t size) {
    self->reading_ = false;
    self->guarded([&] { self->on_read(error, size); });
  };
  if (tls_) {
    tls_->async_read_some(buffer, std::move(handler));
  } else {
    socket_.async_read_some(buffer, std::move(handler));
  }
}

void Connection::on_read(Error error, std::size_t size) {
  if (error) return on_left(error);
  if (phase_ != Phase::kLast && phase_ != Phase::kLinger) {
    input_.append(received_.data(), size);
    if (phase_ == Phase::kBody) body_bytes_ += size;
    advance();
    if (phase_ == Phase::kBody && !hold_body()) return;
  }
  read();
}

/// The client has closed its side, or the connection is broken. An answer that is not ready is cancelled; one that is
/// ready is still sent.
void Connection::on_left(Error error) {
  client_ended_ = true;
  const bool closed = error == asio::error::eof || error == asio::ssl::error::stream_truncated;
  const bool sends_rest = (phase_ == Phase::kAnswer && answered_) || phase_ == Phase::kLast;
  if (!closed || !sends_rest) close();
}

/// Parses the received bytes.
void Connection::advance() {
  while (!input_.empty() && (phase_ == Phase::kIdle || phase_ == Phase::kHead || phase_ == Phase::kBody)) {
    if (phase_ == Phase::kIdle) {
      input_.erase(0, input_.find_first_not_of("\r\n"));  // some clients end a body with these
      if (input_.empty()) return;
      phase_ = Phase::kHead;
      since_ = Clock::now();
      parser_ = std::make_unique<RequestParser>(limits_);
    }
    const std::size_t used = parser_->feed(input_);
    input_.erase(0, used);
    using Stage = RequestParser::Stage;
    const Stage stage = parser_->stage();
    if (stage == Stage::kFailed) return fail(parser_->status(), "invalid_request_error", parser_->problem());
    if (stage == Stage::kDone) {
      if (hold_body()) dispatch();
      return;
    }
    if (stage == Stage::kBody && phase_ == Phase::kHead) {
      begin_body();
    } else if (used == 0) {
      return;
    }
  }
}

void Connection::begin_body() {
  phase_ = Phase::kBody;
  since_ = Clock::now();
  begin_outcome();
  if (host_.options().check_head) {
    if (const auto response = host_.options().check_head(parser_->head())) return refuse(*response);
  }
  body_bytes_ = input_.size();
  if (input_.empty() && parser_->expects_continue()) send("HTTP/1.1 100 Continue\r\n\r\n");
}

/// Returns false if the requests' memory has no room for this body.
bool Connection::hold_body() {
  if (memory_.resize(parser_->head().body.size())) return true;
  HttpResponse response = error_response(429, "rate_limit_error", "the memory for requests is taken: try again later");
  response.headers.emplace_back("Retry-After", "1");
  refuse(response);
  return false;
}

void Connection::dispatch() {
  if (!outcome_) begin_outcome();
  phase_ = Phase::kAnswer;
  http_1_0_ = parser_->http_1_0();
  head_only_ = parser_->head().method == "HEAD";
  keep_alive_ = parser_->keep_alive();
  streams_ = false;
  heartbeat_.clear();
  answered_ = false;
  answer_ = std::make_shared<Answer>(host_.network(), weak_from_this(), !http_1_0_, head_only_, std::move(memory_));
  memory_ = MemoryShare(host_.options().memory);
  HttpRequest request = parser_->take();
  request.client = client_;
  parser_.reset();
  const std::shared_ptr<Answer> answer = answer_;
  const auto exchange = std::make_shared<Exchange>(std::move(request), answer);
  try {
    host_.handle(exchange);
  } catch (...) {
    answer->fail(error_response(500, "server_error", "the server failed on this request"));
  }
}

AnswerForm Connection::form() const {
  return {.http_1_0 = http_1_0_, .head_only = head_only_, .keep_alive = keep_alive_};
}

void Connection::deliver(Answer& answer) {
  if (phase_ != Phase::kAnswer || &answer != answer_.get() || answered_) return;
  guarded([&] {
    Answer::News news = answer.take();
    if (news.abandoned) return http_1_0_ ? reset() : close();  // HTTP/1.0 takes a closed connection for the end
    if (news.head) {
      streams_ = news.streams;
      heartbeat_ = std::move(news.head->heartbeat);
      outcome_->status = news.head->status;
      keep_alive_ = keep_alive_ && !host_.draining() && !(streams_ && http_1_0_);
      if (streams_) {
        send(stream_head_text(*news.head, form()));
      } else {
        respond(std::move(*news.head));
      }
    }
    send(std::move(news.pieces));
    last_piece_ = Clock::now();
    answered_ = news.ended;
    // A single piece may be larger; a fast reader receives it at once.
    if (streams_ && !answered_ && unsent() > limits_.unsent_bytes) {
      if (unsent() / kHopelesslyBehind > limits_.unsent_bytes) return reset();
      if (!behind_since_) behind_since_ = last_piece_;
    }
    if (answered_ && unsent() == 0) on_all_sent();
  });
}

/// Queues the answer; a long body is not copied.
void Connection::respond(HttpResponse response) {
  std::string text = response_head_text(response, form());
  if (head_only_) response.body.clear();
  if (response.body.size() < kKeptCapacity) return send(text + response.body);
  send(std::move(text));
  send(std::move(response.body));
}

void Connection::send(std::string bytes) {
  if (waiting_.empty()) {
    waiting_ = std::move(bytes);
  } else {
    waiting_ += bytes;
  }
  write();
}

/// Sends all waiting bytes in one write.
void Connection::write() {
  if (writing_ || unsent() == 0) return;
  if (sending_.empty()) {
    std::swap(sending_, waiting_);
    progress_ = Clock::now();
  }
  writing_ = true;
  const auto buffer = asio::buffer(sending_.data() + sent_, sending_.size() - sent_);
  auto handler = [self = shared_from_this()](Error error, std::size_t size) {
    self->writing_ = false;
    self->guarded([&] { self->on_written(error, size); });
  };
  if (tls_) {
    tls_->async_write_some(buffer, std::move(handler));
  } else {
    socket_.async_write_some(buffer, std::move(handler));
  }
}

void Connection::on_written(Error error, std::size_t size) {
  if (error) return close();
  sent_ += size;
  progress_ = Clock::now();
  if (sent_ == sending_.size()) {
    sending_.clear();
    sent_ = 0;
  }
  if (unsent() <= limits_.unsent_bytes) behind_since_.reset();
  if (unsent() > 0) return write();
  on_all_sent();
}

void Connection::on_all_sent() {
  if (phase_ != Phase::kLast && (phase_ != Phase::kAnswer || !answered_)) return;
  tell_outcome(/*complete=*/true);
  if (phase_ == Phase::kLast) return linger();
  if (keep_alive_ && !client_ended_ && !host_.draining()) return become_idle();
  linger();
}

void Connection::fail(unsigned status, std::string_view type, std::string_view message) {
  refuse(error_response(status, type, message));
}

/// Sends a last answer; later bytes of the client are not parsed.
void Connection::refuse(const HttpResponse& response) {
  phase_ = Phase::kLast;
  keep_alive_ = false;
  input_.clear();
  http_1_0_ = parser_ && parser_->http_1_0();
  head_only_ = parser_ && parser_->head().method == "HEAD";
  if (!outcome_) begin_outcome();
  outcome_->status = response.status;
  respond(response);
  parser_.reset();  // frees the received part of a body
  memory_.resize(0);
  read();
}

void Connection::begin_outcome() {
  head_ended_ = Clock::now();
  outcome_.emplace();
  outcome_->client = client_;
  if (!parser_ || parser_->stage() == RequestParser::Stage::kHead) return;
  outcome_->method = parser_->head().method;
  outcome_->path = parser_->head().path;
}

void Connection::tell_outcome(bool complete) noexcept {
  std::optional<HttpOutcome> outcome = std::exchange(outcome_, std::nullopt);
  if (!outcome || !host_.options().on_outcome) return;
  outcome->complete = complete;
  outcome->seconds = seconds(Clock::now() - head_ended_).count();
  try {
    host_.options().on_outcome(*outcome);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory to report it; the connection continues
  }
}

void Connection::linger() {
  const bool all_was_read = phase_ == Phase::kAnswer;
  phase_ = Phase::kLinger;
  since_ = Clock::now();
  if (client_ended_ && !(tls_ && all_was_read)) return close();
  if (!tls_) {
    Error error;
    if (socket_.shutdown(asio::ip::tcp::socket::shutdown_send, error)) return close();
  } else if (all_was_read) {  // TLS treats data after its end as an attack
    tls_->async_shutdown([self = shared_from_this()](Error) { self->close(); });
  }
  read();
}

void Connection::check_time(Clock::time_point now) {
  const auto in_phase = now - since_;
  const bool takes_nothing = unsent() > 0 && now - progress_ > limits_.idle_time;
  guarded([&] {
    switch (phase_) {
      case Phase::kHandshake:
        if (in_phase > limits_.handshake_time) close();
        break;
      case Phase::kIdle:
        if (in_phase > limits_.idle_time) close();
        break;
      case Phase::kHead:
        if (in_phase > limits_.header_time) fail(408, "invalid_request_error", "the request's head came too slowly");
        break;
      case Phase::kBody: {
        const double least = static_cast<double>(limits_.least_body_rate) * seconds(in_phase).count();
        if (in_phase > limits_.header_time && static_cast<double>(body_bytes_) < least) {
          fail(408, "invalid_request_error", "the request's body came too slowly");
        }
        break;
      }
      case Phase::kAnswer:
        if (answer_->has_news()) deliver(*answer_);
        if (phase_ != Phase::kAnswer) break;
        if (takes_nothing || (behind_since_ && !answered_ && now - *behind_since_ > limits_.behind_time)) {
          reset();
        } else if (!heartbeat_.empty() && !answered_ && unsent() == 0 &&
                   now - last_piece_ >= host_.options().heartbeat_time) {
          last_piece_ = now;
          send(answer_->framed(heartbeat_));
        }
        break;
      case Phase::kLast:
        if (takes_nothing) reset();
        break;
      case Phase::kLinger:
        if (in_phase > kLingerTime) close();
        break;
      case Phase::kClosed:
        break;
    }
  });
}

void Connection::drain() {
  if (phase_ == Phase::kHandshake || phase_ == Phase::kIdle) close();
}

void Connection::reset() {
  Error ignored;
  std::ignore = socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  close();
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  const std::shared_ptr<Connection> self = shared_from_this();  // the server drops its reference
  Error ignored;
  // The handshake has its own file descriptor.
  if (phase_ == Phase::kHandshake) std::ignore = socket_.shutdown(asio::socket_base::shutdown_both, ignored);
  phase_ = Phase::kClosed;
  memory_.resize(0);
  std::ignore = socket_.close(ignored);
  tell_outcome(/*complete=*/false);
  host_.forget(*this);
  if (const std::shared_ptr<Answer> answer = std::exchange(answer_, nullptr)) answer->client_left();
}

}  // namespace ballast::serve
