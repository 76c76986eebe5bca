// The answer to one HTTP request for text: several prompts with several choices each, sent as one body or as a stream
// of events.
#ifndef BALLAST_SERVE_SERVICE_TEXT_ANSWER_H_
#define BALLAST_SERVE_SERVICE_TEXT_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/api/generation_fields.h"
#include "serve/api/text_format.h"
#include "serve/http/http_server.h"
#include "serve/scheduler/request.h"
#include "serve/service/model_answer.h"
#include "serve/service/worker_pool.h"

namespace ballast::serve {

/// The properties of an answer.
struct AnswerHead {
  std::string id;  ///< "cmpl-..."
  std::string model;
  std::int64_t created = 0;  ///< seconds since 1970
  Delivery delivery;
  std::size_t prompts = 1;
  std::size_t choices = 1;                       ///< for each prompt
  std::optional<std::size_t> logprobs{};         ///< number of most likely tokens returned for each token
  std::optional<std::size_t> prompt_logprobs{};  ///< the same for each token of the prompt
  bool show_special_tokens = false;
  bool shows_thinking = true;  ///< for chats
};

/// Lives as long as one of its listeners. All methods, including start(), run on its strand, so the engine's results
/// for accepted prompts are handled after start().
class TextAnswer : public ModelAnswer, public std::enable_shared_from_this<TextAnswer> {
 public:
  /// The tokenizer must outlive this object.
  TextAnswer(std::shared_ptr<HttpExchange> exchange, std::shared_ptr<Strand> strand, std::unique_ptr<TextFormat> format,
             const text::Tokenizer& tokenizer, AnswerHead head);

  /// Sets the prompt at the beginning of its choices.
  void echo(std::size_t prompt, const std::string& text, const std::vector<int>& ids);

  std::shared_ptr<RequestListener> listener(std::size_t prompt) override;
  void start(std::vector<std::shared_ptr<Ticket>> tickets) override;

 private:
  class Listener;

  struct Choice {
    // In a stream, the parts that were not sent yet.
    std::string text{};
    std::string thinking{};
    std::vector<GeneratedToken> tokens{};     ///< only with log-probabilities
    std::vector<std::size_t> text_offsets{};  ///< the beginning of each token, in code points
    std::size_t decoded = 0;                  ///< code points of the tokens
    std::optional<text::StreamDecoder> decoder{};
    std::optional<GenerateResult::Finish> finish{};
  };

  Choice& choice(std::size_t prompt, std::size_t index) { return choices_[prompt * head_.choices + index]; }
  void add_token(Choice& choice, GeneratedToken token);
  void scored(std::size_t prompt, std::vector<GeneratedToken> scores);
  void took(std::size_t prompt, std::size_t index, const std::vector<ReplyPart>& parts,
            std::optional<GeneratedToken> token);
  void choice_ended(std::size_t prompt, std::size_t index, GenerateResult::Finish finish);
  void ended(const RequestUsage& usage);
  void failed(Failure failure, const std::string& message);
  void send_piece(std::size_t index);
  void send_event(nlohmann::ordered_json choices, bool with_usage);
  void send_body();
  void add_prompt_logprobs(nlohmann::ordered_json& json, std::size_t prompt) const;
  nlohmann::ordered_json body_head(std::string_view object) const;

  std::shared_ptr<HttpExchange> exchange_;
  std::shared_ptr<Strand> strand_;
  std::unique_ptr<TextFormat> format_;
  const text::Tokenizer& tokenizer_;
  AnswerHead head_;
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
