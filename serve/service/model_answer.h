// What answers an HTTP request out of what the engine says.
#ifndef BALLAST_SERVE_SERVICE_MODEL_ANSWER_H_
#define BALLAST_SERVE_SERVICE_MODEL_ANSWER_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "serve/api/api_error.h"
#include "serve/http/http_server.h"
#include "serve/scheduler/request.h"
#include "serve/service/worker_pool.h"

namespace ballast::serve {

class ModelAnswer {
 public:
  ModelAnswer() = default;
  virtual ~ModelAnswer() = default;
  ModelAnswer(const ModelAnswer&) = delete;
  ModelAnswer& operator=(const ModelAnswer&) = delete;

  /// Hears of a prompt; to be handed to the scheduler.
  virtual std::shared_ptr<RequestListener> listener(std::size_t prompt) = 0;

  /// Once all prompts are accepted: their tickets are cancelled when the client goes.
  virtual void start(std::vector<std::shared_ptr<Ticket>> tickets) = 0;
};

/// Ends an answer that could not be made: with an error, in a stream with an event that says so.
inline void send_failure(HttpExchange& exchange, const ApiError& error) {
  exchange.respond(error.response());
  // Where that was no stream, these do nothing.
  exchange.write("data: " + error.body() + "\n\n");
  exchange.end();
}

inline void cancel_all(const std::vector<std::shared_ptr<Ticket>>& tickets) {
  for (const std::shared_ptr<Ticket>& ticket : tickets) ticket->cancel();
}

/// What is done where a task of an answer's strand fails, which nearly always is for want of memory.
inline void end_with_strand(Strand& strand, const std::shared_ptr<HttpExchange>& exchange,
                            const std::vector<std::shared_ptr<Ticket>>& tickets) {
  strand.on_failure([exchange, tickets] {
    cancel_all(tickets);
    send_failure(*exchange, ApiError(500, "the server failed on this request: its memory may be short"));
  });
}

/// Runs what a listener of the engine posts to an answer's strand; the answer fails where that throws.
template <class Post>
void post_or_fail(Strand& strand, const Post& post) noexcept {
  try {
    post();
  } catch (...) {
    strand.fail();
  }
}

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_MODEL_ANSWER_H_
