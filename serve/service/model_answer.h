// What answers an HTTP request out of what the engine says.
#ifndef BALLAST_SERVE_SERVICE_MODEL_ANSWER_H_
#define BALLAST_SERVE_SERVICE_MODEL_ANSWER_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "serve/scheduler/request.h"

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

inline void cancel_all(const std::vector<std::shared_ptr<Ticket>>& tickets) {
  for (const std::shared_ptr<Ticket>& ticket : tickets) ticket->cancel();
}

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_MODEL_ANSWER_H_
