// An answer on its way from the threads that compute it to the network thread.
#ifndef BALLAST_SERVE_HTTP_EXCHANGE_H_
#define BALLAST_SERVE_HTTP_EXCHANGE_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "serve/http/http_message.h"
#include "serve/http/http_server.h"

namespace boost::asio {
class io_context;
}

namespace ballast::serve {

class Connection;

/// Is shared by an exchange and its connection; either may be destroyed first. Responses and pieces are collected here
/// until the network thread takes them; it is woken once for all of them.
class Answer : public std::enable_shared_from_this<Answer> {
 public:
  /// The parts that the network thread has not taken yet.
  struct News {
    std::optional<HttpResponse> head{};
    bool streams = false;  ///< `head` begins a stream
    std::string pieces{};  ///< framed
    bool ended = false;
    bool abandoned = false;  ///< the exchange was destroyed before the answer ended
  };

  Answer(std::weak_ptr<boost::asio::io_context> network, std::weak_ptr<Connection> connection, bool chunked,
         bool head_only, MemoryShare memory)
      : network_(std::move(network)),
        connection_(std::move(connection)),
        chunked_(chunked),
        head_only_(head_only),
        memory_(std::move(memory)) {}

  /// Returns a piece of the body as it is sent.
  std::string framed(std::string_view piece) const;

  // Called by any thread: see HttpExchange.
  void respond(HttpResponse response);
  void begin_stream(HttpResponse head);
  void write(std::string_view piece);
  void end();
  void on_gone(std::function<void()> callback);
  void abandon() noexcept;
  bool hold(std::size_t bytes) { return memory_.resize(bytes); }

  /// Ends the answer of a failed handler: sends `response` if nothing was sent yet.
  void fail(HttpResponse response);

  // Called by the network thread.
  News take();
  bool has_news();  ///< whether there are parts for which the network thread could not be woken
  void client_left() noexcept;

 private:
  enum class State { kOpen, kStreaming, kEnded, kGone };

  void finish(std::unique_lock<std::mutex> lock);
  void wake(std::unique_lock<std::mutex> lock) noexcept;

  const std::weak_ptr<boost::asio::io_context> network_;
  const std::weak_ptr<Connection> connection_;
  const bool chunked_;
  const bool head_only_;
  MemoryShare memory_;  ///< for the handler, and at last for the network thread

  std::mutex mutex_;
  // Protected by the mutex.
  State state_ = State::kOpen;
  News news_;
  bool woken_ = false;  ///< the network thread was woken
  std::function<void()> callback_;
};

class Exchange final : public HttpExchange {
 public:
  Exchange(HttpRequest request, std::shared_ptr<Answer> answer)
      : request_(std::move(request)), answer_(std::move(answer)) {}
  ~Exchange() override { answer_->abandon(); }

  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override { answer_->respond(std::move(response)); }
  void begin_stream(HttpResponse head) override { answer_->begin_stream(std::move(head)); }
  void write(std::string piece) override { answer_->write(piece); }
  void end() override { answer_->end(); }
  void on_gone(std::function<void()> callback) override { answer_->on_gone(std::move(callback)); }
  bool hold(std::size_t bytes) override { return answer_->hold(bytes); }
  void drop_body() override { std::string().swap(request_.body); }

 private:
  HttpRequest request_;
  const std::shared_ptr<Answer> answer_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_HTTP_EXCHANGE_H_
