// The interface of answers that are built from the engine's results.
#ifndef BALLAST_SERVE_SERVICE_MODEL_ANSWER_H_
#define BALLAST_SERVE_SERVICE_MODEL_ANSWER_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "serve/api/api_error.h"
#include "serve/api/api_path.h"
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

  /// Returns the listener of a prompt, for the scheduler.
  virtual std::shared_ptr<RequestListener> listener(std::size_t prompt) = 0;

  /// Is called after all prompts are accepted; cancels their tickets if the client disconnects.
  virtual void start(std::vector<std::shared_ptr<Ticket>> tickets) = 0;
};

/// Ends a failed answer in the form of its API: with an error, or in a stream with an error event.
inline void send_failure(HttpExchange& exchange, const ApiError& error) {
  const ErrorForm form = error_form(exchange.request().path);
  exchange.respond(error.response(form));
  // These calls do nothing if the answer is not a stream.
  exchange.write(error.event(form));
  exchange.end();
}

inline void cancel_all(const std::vector<std::shared_ptr<Ticket>>& tickets) {
  for (const std::shared_ptr<Ticket>& ticket : tickets) ticket->cancel();
}

/// Makes the answer fail if a task of its strand fails, nearly always because of a failed allocation.
inline void end_with_strand(Strand& strand, const std::shared_ptr<HttpExchange>& exchange,
                            const std::vector<std::shared_ptr<Ticket>>& tickets) {
  strand.on_failure([exchange, tickets] {
    cancel_all(tickets);
    send_failure(*exchange, ApiError(500, "the server failed on this request: its memory may be short"));
  });
}

/// Posts a listener's task to the answer's strand; the answer fails if that throws.
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
