// The answer to one request for embeddings.
#ifndef BALLAST_SERVE_SERVICE_EMBEDDING_ANSWER_H_
#define BALLAST_SERVE_SERVICE_EMBEDDING_ANSWER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "serve/http/http_server.h"
#include "serve/scheduler/request.h"
#include "serve/service/model_answer.h"
#include "serve/service/ready_model.h"
#include "serve/service/worker_pool.h"

namespace ballast::serve {

/// Lives as long as one of its listeners. All methods run on its strand.
class EmbeddingAnswer : public ModelAnswer, public std::enable_shared_from_this<EmbeddingAnswer> {
 public:
  /// Writes the body from the vectors of all inputs.
  using MakeBody =
      std::function<nlohmann::ordered_json(std::span<const std::vector<float>> vectors, const RequestUsage& usage)>;

  EmbeddingAnswer(std::shared_ptr<HttpExchange> exchange, std::shared_ptr<Strand> strand, ModelLease model,
                  std::size_t inputs, MakeBody make_body);

  std::shared_ptr<RequestListener> listener(std::size_t input) override;
  void start(std::vector<std::shared_ptr<Ticket>> tickets) override;

 private:
  class Listener;

  void ended(const RequestUsage& usage);
  void failed(Failure failure, const std::string& message);

  std::shared_ptr<HttpExchange> exchange_;
  std::shared_ptr<Strand> strand_;
  ModelLease model_;  ///< stays loaded for the requests, whose listeners own this object
  std::vector<std::vector<float>> embeddings_;
  std::vector<std::shared_ptr<Ticket>> tickets_;
  MakeBody make_body_;
  RequestUsage usage_;
  std::size_t open_;  ///< inputs
  bool over_ = false;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_EMBEDDING_ANSWER_H_
