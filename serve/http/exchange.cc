#include "serve/http/exchange.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "serve/http/connection.h"
#include "serve/http/response_text.h"

namespace ballast::serve {

std::string Answer::framed(std::string_view piece) const {
  if (head_only_ || piece.empty()) return {};
  return chunked_ ? chunk_text(piece) : std::string(piece);
}

void Answer::respond(HttpResponse response) {
  std::unique_lock lock(mutex_);
  if (state_ != State::kOpen) return;
  news_.head = std::move(response);
  finish(std::move(lock));
}

void Answer::begin_stream(HttpResponse head) {
  std::unique_lock lock(mutex_);
  if (state_ != State::kOpen) return;
  state_ = State::kStreaming;
  news_.head = std::move(head);
  news_.streams = true;
  wake(std::move(lock));
}

void Answer::write(std::string_view piece) {
  const std::string bytes = framed(piece);
  std::unique_lock lock(mutex_);
  if (state_ != State::kStreaming || bytes.empty()) return;
  news_.pieces += bytes;
  wake(std::move(lock));
}

void Answer::end() {
  std::unique_lock lock(mutex_);
  if (state_ != State::kStreaming) return;
  if (chunked_ && !head_only_) news_.pieces += kLastChunk;
  finish(std::move(lock));
}

void Answer::fail(HttpResponse response) {
  respond(std::move(response));
  abandon();
}

void Answer::abandon() noexcept {
  try {
    std::unique_lock lock(mutex_);
    if (state_ != State::kOpen && state_ != State::kStreaming) return;
    news_.abandoned = true;
    finish(std::move(lock));
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory to wake the network; its client can still leave
  }
}

/// The callback may own the last reference to any object, so it is destroyed outside of the lock.
void Answer::finish(std::unique_lock<std::mutex> lock) {
  state_ = State::kEnded;
  news_.ended = true;
  const std::function<void()> callback = std::exchange(callback_, nullptr);
  wake(std::move(lock));
}

/// Wakes the network thread. If there is no memory for that, the connection polls a little later.
void Answer::wake(std::unique_lock<std::mutex> lock) noexcept {
  if (woken_) return;
  const std::shared_ptr<boost::asio::io_context> network = network_.lock();
  if (!network) return;
  woken_ = true;
  lock.unlock();
  try {
    boost::asio::post(*network, [self = shared_from_this()] {
      if (const std::shared_ptr<Connection> connection = self->connection_.lock()) connection->deliver(*self);
    });
  } catch (...) {
    lock.lock();
    woken_ = false;
  }
}

bool Answer::has_news() {
  const std::lock_guard lock(mutex_);
  return !woken_ && (news_.head || !news_.pieces.empty() || state_ == State::kEnded);
}

void Answer::on_gone(std::function<void()> callback) {
  std::unique_lock lock(mutex_);
  if (state_ == State::kGone) {
    lock.unlock();
    callback();
  } else if (state_ != State::kEnded) {
    std::swap(callback_, callback);
    lock.unlock();  // before the old callback is destroyed
  }
}

Answer::News Answer::take() {
  const std::lock_guard lock(mutex_);
  woken_ = false;
  return std::exchange(news_, News{.ended = news_.ended});
}

void Answer::client_left() noexcept {
  std::unique_lock lock(mutex_);
  if (state_ != State::kOpen && state_ != State::kStreaming) return;
  state_ = State::kGone;
  news_ = {};
  const std::function<void()> callback = std::exchange(callback_, nullptr);
  lock.unlock();
  try {
    if (callback) callback();
  } catch (...) {  // NOLINT(bugprone-empty-catch): an exception cannot be reported here
  }
}

}  // namespace ballast::serve
