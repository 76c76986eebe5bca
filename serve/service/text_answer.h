// The answer to one HTTP request for text: several prompts with several choices each, sent as one body or as a stream
// of events.
#ifndef BALLAST_SERVE_SERVICE_TEXT_ANSWER_H_
#define BALLAST_SERVE_SERVICE_TEXT_ANSWER_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/api/answer_format.h"
#include "serve/http/http_server.h"
#include "serve/scheduler/request.h"
#include "serve/service/answer_shape.h"
#include "serve/service/model_answer.h"
#include "serve/service/ready_model.h"
#include "serve/service/worker_pool.h"

namespace ballast::serve {

/// Lives as long as one of its listeners. All methods, including start(), run on its strand, so the engine's results
/// for accepted prompts are handled after start().
class TextAnswer : public ModelAnswer, public std::enable_shared_from_this<TextAnswer> {
 public:
  /// The model must have a tokenizer.
  TextAnswer(std::shared_ptr<HttpExchange> exchange, std::shared_ptr<Strand> strand, ModelLease model,
             std::unique_ptr<AnswerFormat> format, AnswerShape shape);

  /// Sets the prompt at the beginning of its choices.
  void echo(std::size_t prompt, const std::string& text, const std::vector<int>& ids);

  std::shared_ptr<RequestListener> listener(std::size_t prompt) override;
  void start(std::vector<std::shared_ptr<Ticket>> tickets) override;

 private:
  class Listener;

  struct Choice {
    // In a stream, what was not sent yet.
    CountedParts reply{};                     ///< tokens are counted only with log-probabilities
    std::vector<GeneratedToken> tokens{};     ///< only with log-probabilities
    std::vector<std::size_t> text_offsets{};  ///< the beginning of each token, in code points
    std::size_t decoded = 0;                  ///< code points of the tokens
    std::optional<text::StreamDecoder> decoder{};
    std::optional<ChoiceEnd> end{};
    bool thinks = false;  ///< its last text is thinking
  };

  Choice& choice(std::size_t prompt, std::size_t index) { return choices_[prompt * shape_.choices + index]; }
  AnswerPiece piece(std::size_t index) const;
  void add_token(Choice& choice, GeneratedToken token);
  void scored(std::size_t prompt, std::vector<GeneratedToken> scores);
  void took(std::size_t prompt, std::size_t index, const std::vector<ReplyPart>& parts,
            std::optional<GeneratedToken> token);
  void choice_ended(std::size_t prompt, std::size_t index, const ChoiceEnd& end);
  void ended(const RequestUsage& usage);
  void failed(Failure failure, const std::string& message);
  void send_piece(std::size_t index);
  void send(std::string text);
  void send_body();

  std::shared_ptr<HttpExchange> exchange_;
  std::shared_ptr<Strand> strand_;
  ModelLease model_;  ///< stays loaded, for the format and for the requests, whose listeners own this object
  std::unique_ptr<AnswerFormat> format_;
  AnswerShape shape_;
  std::vector<Choice> choices_;
  std::vector<std::vector<int>> echoed_;                    ///< ids of each echoed prompt, with log-probabilities
  std::vector<std::vector<GeneratedToken>> prompt_scores_;  ///< for each prompt, if prompt_logprobs are requested
  std::vector<std::shared_ptr<Ticket>> tickets_;
  RequestUsage usage_;
  std::size_t open_;  ///< prompts
  bool over_ = false;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_TEXT_ANSWER_H_
