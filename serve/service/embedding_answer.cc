#include "serve/service/embedding_answer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "serve/api/api_error.h"
#include "serve/api/embedding_format.h"
#include "serve/api/json_text.h"

namespace ballast::serve {

/// Posts the engine's results to the answer's strand.
class EmbeddingAnswer::Listener : public RequestListener {
 public:
  Listener(std::shared_ptr<EmbeddingAnswer> answer, std::size_t input) : answer_(std::move(answer)), input_(input) {}

  void on_embedded(std::vector<float>&& embedding) override {
    post([&] {
      return [answer = answer_, input = input_, embedding = std::move(embedding)]() mutable {
        answer->embeddings_[input] = std::move(embedding);
      };
    });
  }
  void on_end(const RequestUsage& usage) override {
    post([&] { return [answer = answer_, usage] { answer->ended(usage); }; });
  }
  void on_failure(Failure failure, const std::string& message) override {
    post([&] { return [answer = answer_, failure, message] { answer->failed(failure, message); }; });
  }

 private:
  template <class MakeTask>
  void post(const MakeTask& make_task) noexcept {
    post_or_fail(*answer_->strand_, [&] { answer_->strand_->post(make_task()); });
  }

  std::shared_ptr<EmbeddingAnswer> answer_;
  std::size_t input_;
};

EmbeddingAnswer::EmbeddingAnswer(std::shared_ptr<HttpExchange> exchange, std::shared_ptr<Strand> strand,
                                 ModelLease model, std::size_t inputs, MakeBody make_body)
    : exchange_(std::move(exchange)),
      strand_(std::move(strand)),
      model_(std::move(model)),
      embeddings_(inputs),
      make_body_(std::move(make_body)),
      open_(inputs) {}

std::shared_ptr<RequestListener> EmbeddingAnswer::listener(std::size_t input) {
  return std::make_shared<Listener>(shared_from_this(), input);
}

void EmbeddingAnswer::start(std::vector<std::shared_ptr<Ticket>> tickets) {
  end_with_strand(*strand_, exchange_, tickets);
  exchange_->on_gone([tickets] { cancel_all(tickets); });
  tickets_ = std::move(tickets);
}

void EmbeddingAnswer::ended(const RequestUsage& usage) {
  usage_.prompt_tokens += usage.prompt_tokens;
  if (--open_ > 0 || over_) return;
  over_ = true;
  exchange_->respond({.body = json_text(make_body_(embeddings_, usage_))});
}

void EmbeddingAnswer::failed(Failure failure, const std::string& message) {
  if (over_) return;
  over_ = true;
  cancel_all(tickets_);
  send_failure(*exchange_, ApiError(failure == Failure::kError ? 500 : 503, message));
}

}  // namespace ballast::serve
